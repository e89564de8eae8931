"""Forms of schedules, windows and policies: what they change and what they override."""

from __future__ import annotations

import pytest

from ingest.models import Pipeline
from ingest.pipelines.policies.store import change_policy, given_at, policy_of
from ingest.pipelines.transitions import pipeline_of


@pytest.fixture
def at(world):
    return f"/tables/{world.lake_tables['orders'].pk}/policy"


def pipeline(world) -> Pipeline:
    found = pipeline_of(world.lake_tables["orders"].pk)
    assert found is not None
    return found


def sent(client, at: str, **more: str):
    tag = client.get(at).context["tag"]
    return client.post(at, {"tag": tag, **more})


def test_a_tables_settings_are_changed_and_taken_back(world, browse, at):
    client = browse("root")
    given = {
        "when": "cron",
        "cron": "30 2 * * MON-FRI",
        "timezone": "Europe/Berlin",
        "quiet_from": "22:00",
        "quiet_to": "06:00",
        "verify_every": "86400",
        "max_write_amplification": "5.5",
        "schema_changes": "ask",
    }
    assert sent(client, at, **given).status_code == 302
    policy = policy_of(pipeline(world))
    assert policy.verification.verify_every == 86400
    assert policy.keeping.max_write_amplification == 5.5
    assert policy.schema_changes == "ask"
    assert policy.quiet is not None
    page = client.get(at).content.decode()
    assert "Europe/Berlin time" in page
    assert "Next:" in page
    assert not optional(page, "id_every_seconds"), "its placeholder tells"
    assert not optional(page, "id_when"), "a list always has a choice"
    assert "Verification interval: 1 d" in page
    assert "instead of off, default" in page
    assert sent(client, at, when="inherit").status_code == 302
    assert pipeline(world).policy == {}


def test_units_are_taken_and_shown(world, browse, at):
    client = browse("root")
    given = {
        "when": "every:300",
        "lag_seconds": "1.5 s",
        "late_after_seconds": "2 h 30 min",
        "compact_log_bytes": "512 MiB",
        "max_waiting_bytes": "2000000",
    }
    assert sent(client, at, **given).status_code == 302
    stored = pipeline(world).policy
    assert stored["schedule"] == {"every_seconds": 300}
    assert stored["late_after_seconds"] == 9000
    assert stored["lag_seconds"] == 1.5
    assert stored["compact_log_bytes"] == 512 * 1024**2
    page = client.get(at).content.decode()
    for shown in ("150 min", "512 MiB", "2 MB", "1.5 s"):
        assert f'value="{shown}"' in page, shown
    assert '<option value="every:300" selected>' in page
    assert sent(client, at, when="daily", timezone="Asia/Shanghai").status_code == 302
    cron = {"cron": "0 2 * * *", "timezone": "Asia/Shanghai"}
    assert pipeline(world).policy["schedule"] == cron
    assert '<option value="daily" selected>' in client.get(at).content.decode()
    wrong = {"when": "every", "every_seconds": "soon", "verify_every": "1.5 s"}
    page = sent(client, at, **wrong, compact_log_bytes="5 bananas").content.decode()
    assert page.count("Enter a time such as") == 4, "above, and at each field"
    assert "Enter a size such as" in page


def optional(page: str, field: str) -> bool:
    label = page.partition(f'<label for="{field}">')[2].partition("</label>")[0]
    assert label, field
    return "(optional)" in label


def test_all_mistakes_stand_at_their_fields_and_nothing_is_lost(world, browse, at):
    before = pipeline(world).policy
    wrong = {
        "when": "every",
        "every_seconds": "30",
        "quiet_from": "25:00",
        "quiet_to": "06:00",
        "verify_every": "5",
        "max_write_amplification": "1",
        "driver_memory": "much",
    }
    response = sent(browse("root"), at, **wrong)
    page = response.content.decode()
    assert response.status_code == 422
    for said in ("like 22:00", "verify_every must be", "from 2 to", "1200m or 4g"):
        assert said in page
    assert 'value="25:00"' in page
    assert pipeline(world).policy == before


def test_a_wrong_time_hides_no_wrong_zone(world, browse, at):
    wrong = {"quiet_from": "x", "quiet_to": "25:00", "quiet_timezone": "Mars/Base"}
    page = sent(browse("root"), at, when="inherit", **wrong).content.decode()
    assert "From: from must be a time of day" in page
    assert "To: to must be a time of day" in page
    assert "Time zone: &#x27;Mars/Base&#x27; is no IANA time zone" in page


def test_levels_above_are_changed_and_named_below(world, browse, at):
    client = browse("root")
    sent(client, "/sources/shop/policy", when="every", every_seconds="3600")
    of_public = "/sources/shop/policy?database=public"
    given = {"compact_after": "7", "verify_rows_per_second": "1000000"}
    sent(client, of_public, when="inherit", **given)
    public = world.source.databases.get(name="public")
    assert given_at(world.source, None)["schedule"] == {"every_seconds": 3600}
    assert given_at(world.source, public) == {name: int(n) for name, n in given.items()}
    page = client.get(at).content.decode()
    assert 'placeholder="7, from database shop.public"' in page
    assert 'placeholder="1,000,000, from database shop.public"' in page
    assert "instead of Every hour, from datasource shop" in page


def test_a_change_of_somebody_else_is_not_overwritten(world, browse, at):
    client = browse("root")
    change_policy(world.source, None, {"compact_after": 3})
    stale = client.post(
        "/sources/shop/policy", {"tag": "old", "when": "inherit", "compact_after": "9"}
    )
    assert "nother user changed" in stale.content.decode()
    assert given_at(world.source, None) == {"compact_after": 3}
