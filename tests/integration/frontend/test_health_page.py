"""A stranger can tell from the health page what is wrong and what each button does."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from frontend.reading.health import TITLES
from ingest.actions.registry import ACTIONS
from ingest.maintenance import repairs
from ingest.models import Pipeline, TableHealth
from ingest.pipelines.policies.policy import TABLE_KEYS
from ingest.pipelines.policies.store import change_policy, change_table_policy
from ingest.pipelines.transitions import pipeline_of
from tests.integration.frontend.reading import html_of
from tests.integration.frontend.world import HOSTILE

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.django_db


def page_of(client, table) -> str:
    return html.unescape(html_of(client.get(f"/tables/{table.pk}/health")))


def test_words_are_for_reasons_that_cost_points():
    told = (ROOT / "docs" / "maintenance.md").read_text().partition("## The score")[2]
    codes = re.findall(r"^\| `(\w+)` \|", told.partition("\n## ")[0], re.M)
    assert set(TITLES) <= set(codes)


def test_what_is_wrong_stands_beside_what_helps(world, browse):
    text = page_of(browse("root"), world.lake_tables["orders"])
    for code in ("bucket_conflict", "compaction_stuck", "many_logs"):
        assert TITLES[code] in text
    # of unfinished work, what it is
    assert "Write, started, and no job continues it" in text
    # each of its buttons is about one instant, so each says what it does
    wrong = text.partition('id="wrong-title"')[2].partition("</section>")[0]
    assert wrong.count(ACTIONS["rollback"].does) == 2
    for name in ("deduplicate", "rollback", "compact", "unschedule-compaction"):
        assert ACTIONS[name].does in text, name
    # what a stuck compaction holds up, and its alert
    assert "4 file groups with 80 MB of log files are not compacted again" in text
    assert "9 later instants stay on the timeline" in text
    assert "Open alerts" in text
    assert (
        "Its request file is missing or damaged: the table cannot be read or written."
        in text
    )


def test_unfinished_work_is_called_by_what_it_is_whatever_the_reason_says(
    world, browse
):
    table = world.lake_tables["events"]
    issue = {"code": "write_stuck", "points": 10, "repair": None, "instant": None}
    told = {**issue, "reason": "one", "action": "clean", "state": "REQUESTED"}
    older = {**issue, "reason": "two"}  # stored before issues said what they are about
    TableHealth.objects.filter(table=table).update(issues=[told, older])
    text = page_of(browse("root"), table)
    assert "Cleaning, planned, and no job continues it.</strong> One." in text
    assert f"{TITLES['write_stuck']}.</strong> Two." in text


def test_what_is_always_offered_says_what_waits_and_the_way_back(world, browse):
    text = page_of(browse("root"), world.lake_tables["events"])
    assert "No issues found" in text
    care = [name for name, action in ACTIONS.items() if action.is_care]
    assert care[:2] == ["compact", "verify"]
    for name in care:
        action = ACTIONS[name]
        assert f'id="action-{name}"' in text
        assert action.does in text
    said = html_of(
        browse("root").get(f"/tables/{world.lake_tables['events'].pk}/verify")
    )
    assert ACTIONS["verify"].blocks in said, "what waits is on the page of each"
    assert ACTIONS["verify"].undo in said


def test_a_page_shows_what_was_seen_and_asks_no_lake(world, browse, monkeypatch):
    monkeypatch.setattr(repairs, "timeline_at", None)  # a store that hangs, say
    events = world.lake_tables["events"]
    Pipeline.objects.filter(lake_table=events).update(state="LIVE")
    text = page_of(browse("root"), events)
    assert "restore points of this table" in text
    assert "2026-01-08 00:20:00 UTC" in text
    assert f"/tables/{events.pk}/restore?instant=20260101001000000" in text


def test_who_may_not_repair_is_told_what_would_help(world, browse):
    text = page_of(browse("ann"), world.lake_tables["orders"])
    assert "Remove duplicates helps. It needs the privilege operate" in text
    assert "each first shows what it blocks and how to undo it" not in text
    assert f"/tables/{world.lake_tables['orders'].pk}/deduplicate" not in text


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("PAUSED", "Resync helps. The table is PAUSED: resume it first."),
        (
            "RESYNCING",
            "Resync helps. The table is RESYNCING: ask when that has ended.",
        ),
    ],
)
def test_what_the_table_must_not_be_is_told_to_who_may(world, browse, state, said):
    table = world.lake_tables["orders"]
    Pipeline.objects.filter(lake_table=table).update(state=state)
    issue = {"code": "differs_from_source", "points": 30, "repair": "resync"}
    row = TableHealth.objects.filter(table=table)
    row.update(issues=[issue | {"reason": "rows differ", "instant": None}])
    assert said in page_of(browse("root"), table)


@pytest.mark.parametrize("name", ["sync", "compact", "resync", "remove"])
def test_the_page_before_a_yes_says_the_same(world, browse, name):
    found = browse("root").get(f"/tables/{world.lake_tables['orders'].pk}/{name}")
    text = html.unescape(found.content.decode())
    action = ACTIONS[name]
    for said in (action.does, action.blocks, action.undo):
        assert said in text
    assert HOSTILE not in found.content.decode()


def test_the_policy_is_told_in_words_with_where_each_value_is_from(world, browse):
    table = world.lake_tables["orders"]
    shop = world.source
    change_policy(shop, None, {"compact_after": 7, "stuck_after_seconds": 120})
    change_policy(shop, shop.databases.get(), {"compact_after": 1})
    quiet = {"from": "22:00", "to": "06:00", "timezone": "Europe/Berlin"}
    change_table_policy(pipeline_of(table.pk), {"maintenance_window": quiet})
    text = page_of(browse("ann"), table)
    policy = text.partition('id="policy-title"')[2].partition("</table>")[0]
    rows = [
        re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        for row in policy.split("<tr>")[2:]
    ]
    told = {row[3]: row[1:3] for row in rows}
    assert set(told) == {f"<code>{key}</code>" for key in TABLE_KEYS}
    for key, words, origin in (
        ("compact_after", "1", "database shop.public"),
        ("stuck_after_seconds", "2 min", "datasource shop"),
        ("compact_log_bytes", "256 MB", "default"),
        ("maintenance_window", "22:00 to 06:00, Europe/Berlin", "this table"),
        ("compact_driver", "shared driver", "default"),
    ):
        assert told[f"<code>{key}</code>"] == [words, origin], key


def test_whoever_may_operate_has_a_table_looked_at_now(world, browse):
    table = world.lake_tables["orders"]
    row = TableHealth.objects.get(table=table)
    address, check = f"/tables/{table.pk}/health", f"/tables/{table.pk}/health/check"
    assert "Check now" in page_of(browse("root"), table)
    assert "Check now" not in page_of(browse("ann"), table)
    assert browse("ann").post(check).status_code == 403
    assert browse("eve").post(check).status_code == 404
    assert browse("root").get(check).status_code == 405
    assert browse("root").post(check)["Location"] == address
    row.refresh_from_db()
    # there are no files behind this world
    assert [issue["code"] for issue in row.issues] == ["files_gone"]
    assert TITLES["files_gone"] in page_of(browse("root"), table)
