"""Schedules and inherited policies: once, never stacked, followed without a restart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from core.models import Job
from ingest.models import Pipeline
from ingest.pipelines import sync_job, table_commands
from tests.doubles.launcher import Fault
from tests.integration.at_once import at_once
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.integration.ingest.test_alerts import Killed, die
from tests.integration.ingest.world import make_tables
from tests.waiting import wait_for

pytestmark = pytest.mark.django_db

HOURLY = {"cron": "0 * * * *", "timezone": "Europe/Berlin"}
NIGHTLY = {"cron": "30 2 * * *", "timezone": "Europe/Berlin"}
BODY = {"datasource": "shop", "include": ["public.*"], "capture": "timestamp"}


def syncs() -> int:
    return Job.objects.filter(kind="sync").count()


def due(world, name: str, at: datetime) -> None:
    Pipeline.objects.filter(pk=world.pipeline(name).pk).update(due_at=at)


def next_hour() -> datetime:
    now = datetime.now(UTC)
    return now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)


@pytest.fixture
def within_an_hour() -> None:
    """None begins while the test runs."""

    def is_far() -> bool:
        return next_hour() - datetime.now(UTC) > timedelta(minutes=1)

    wait_for(is_far, "an hour to begin", pause=1)


# ---------------------------------------------------------------------- schedules


@pytest.mark.usefixtures("within_an_hour")
def test_missed_hours_are_one_sync_and_the_next_is_at_the_hour(world) -> None:
    world.onboard("orders", schedule=HOURLY)
    world.until_live("orders")
    assert world.pipeline("orders").due_at == next_hour()
    before = syncs()
    due(world, "orders", timezone.now() - timedelta(days=3))
    world.steps(8)
    assert syncs() == before + 1
    assert world.pipeline("orders").due_at == next_hour()
    assert world.pipeline("orders").status_reason == ""


def test_a_run_that_falls_due_while_one_is_going_is_skipped_and_said(world) -> None:
    world.onboard("orders", schedule={"cron": "* * * * *"})
    world.until_live("orders")
    world.fail_with("sync", Fault.HANG)
    due(world, "orders", timezone.now())
    world.until(lambda: world.jobs("sync")[-1].state == "RUNNING")
    job = world.jobs("sync")[-1]
    asked = timezone.now() - timedelta(minutes=2, seconds=5)
    Job.objects.filter(pk=job.pk).update(queued_at=asked)
    before = syncs()
    world.steps(5)
    assert syncs() == before, "nothing is stacked behind it"
    world.launcher._work[str(job.pk)].fault = Fault.NONE
    world.until(lambda: world.jobs("sync")[-1].is_finished)
    pipeline = world.pipeline("orders")
    assert "2 runs" in pipeline.status_reason or "3 runs" in pipeline.status_reason
    assert "skipped: the sync before was still going" in pipeline.status_reason
    assert pipeline.due_at > timezone.now()


def test_pausing_keeps_the_schedule(world, admin) -> None:
    world.onboard("orders", schedule=NIGHTLY)
    world.until_live("orders")
    table = world.lake("orders").pk
    first = admin("GET", f"tables/{table}/policy").json()
    assert len(first["next_runs"]) == 3
    assert first["next_runs"][0] == first["due_at"]
    admin("POST", f"tables/{table}:pause")
    paused = admin("GET", f"tables/{table}/policy").json()
    assert (paused["schedule"], paused["next_runs"]) == (NIGHTLY, [])
    admin("POST", f"tables/{table}:resume")
    world.until_live("orders")
    assert admin("GET", f"tables/{table}/policy").json() == first


@pytest.mark.django_db(transaction=True)
def test_two_schedulers_fire_once(world) -> None:
    names = [f"t{n}" for n in range(6)]
    world.onboard(*names, schedule=NIGHTLY)
    for _ in range(4):
        Job.objects.all().delete()
        Pipeline.objects.update(state="LIVE", due_at=timezone.now())
        started = at_once(lambda _: sync_job.start_due_syncs(), times=4)
        assert sum(started) == len(names) == syncs()
        assert not Pipeline.objects.exclude(due_at=None).exists()


def test_the_plan_shows_the_schedule_before_approval(world, admin) -> None:
    make_tables(world.source, ["orders"])
    words = "At 02:30 every day, Europe/Berlin time"
    dry = admin("POST", "onboardings", {**BODY, "schedule": NIGHTLY, "dry_run": True})
    one = dry.json()["tables"][0]
    assert (one["schedule"], one["schedule_in_words"]) == (NIGHTLY, words)
    assert one["schedule_from"] == "table"
    assert len(one["next_runs"]) == 3
    steps = {s["step"]: s["summary"] for s in one["plan"]["steps"]}
    assert steps["ApplyChanges"].endswith("By cron 30 2 * * *, Europe/Berlin time")
    made = admin("POST", "onboardings", {**BODY, "schedule": NIGHTLY}).json()
    assert (made["schedule"], made["schedule_in_words"]) == (NIGHTLY, words)
    assert made["tables"][0]["schedule_in_words"] == words


# ----------------------------------------------------------------------- policies


def test_tables_inherit_from_database_and_source_and_say_so(world, admin) -> None:
    source = admin("PATCH", "datasources/shop/policy", {"schedule": NIGHTLY})
    assert source.json()["effective"]["schedule"] == {
        "value": NIGHTLY,
        "from": "datasource shop",
    }
    world.onboard("orders")
    world.until_live("orders")
    one = f"tables/{world.lake('orders').pk}/policy"
    assert admin("GET", one).json()["schedule_from"] == "datasource shop"

    database = "datasources/shop/databases/public/policy"
    admin("PATCH", database, {"schedule": {"every_seconds": 900}, "lag_seconds": 30})
    seen = admin("GET", one).json()
    asked = ("schedule", "lag_seconds", "compact_after")
    assert {key: seen["effective"][key] for key in asked} == {
        "schedule": {
            "value": {"every_seconds": 900},
            "from": "database shop.public",
        },
        "lag_seconds": {"value": 30.0, "from": "database shop.public"},
        "compact_after": {"value": 5, "from": "default"},
    }
    assert seen["given"] == {}

    before = world.pipeline("orders").due_at
    admin("PATCH", "datasources/shop/policy", {"schedule": HOURLY})
    assert world.pipeline("orders").due_at == before, "its own schedule is as it was"
    admin("PATCH", "datasources/shop/policy", {"schedule": NIGHTLY})

    admin("PATCH", one, {"schedule": "manual", "compact_after": 3})
    seen = admin("GET", one).json()
    assert seen["schedule_from"] == "table"
    assert (seen["schedule_in_words"], seen["due_at"]) == ("On request", None)

    admin("PATCH", one, {"schedule": None})
    admin("PATCH", database, {"schedule": None})
    seen = admin("GET", one).json()
    assert seen["schedule_from"] == "datasource shop"
    assert seen["due_at"] == seen["next_runs"][0]
    assert seen["effective"]["lag_seconds"]["value"] == 30


@pytest.mark.usefixtures("within_an_hour")
def test_a_change_counts_at_the_next_decision(world, admin) -> None:
    world.onboard("orders", "lines", schedule=None)
    world.until_live("orders", "lines")
    world.steps(1)
    assert world.pipeline("orders").due_at is None
    shop = "datasources/shop/policy"
    change = {"schedule": HOURLY, "lag_seconds": 60, "compact_after": 4}
    change |= {"max_write_amplification": 25, "compact_log_age_seconds": 7200}
    admin("PATCH", shop, change)
    assert {world.pipeline(n).due_at for n in ("orders", "lines")} == {next_hour()}
    table_commands.start_sync(world.lake("orders"), actor="ann")
    world.until(lambda: world.jobs("sync")[-1].spec is not None)
    spec = world.jobs("sync")[-1].spec
    assert (spec["sync"]["lag_seconds"], spec["compact_after"]) == (60, 4)
    assert (spec["budget"]["amplification"], spec["budget"]["log_age"]) == (25, 7200)
    # the running sync keeps its place: its table gets a new time when it ends
    admin("PATCH", shop, {"schedule": {"every_seconds": 7200}})
    assert world.pipeline("orders").due_at is None
    assert world.pipeline("lines").due_at > timezone.now() + timedelta(seconds=7100)
    world.until(lambda: world.pipeline("orders").due_at is not None)
    assert world.pipeline("orders").due_at > timezone.now() + timedelta(seconds=7000)
    table_commands.start_resync(world.lake("lines"), actor="ann")
    world.until(lambda: world.jobs("resync")[-1].spec is not None)
    assert world.jobs("resync")[-1].spec["snapshot"]["lag_seconds"] == 60


def test_wrong_settings_change_nothing(world, admin) -> None:
    change = {"lag_seconds": 9, "schedule": {"cron": "0 0 30 2 *"}}
    reply = admin("PATCH", "datasources/shop/policy", change)
    assert reply.status_code == 400
    assert reply.json()["errors"][0]["pointer"] == "/schedule/cron"
    assert admin("GET", "datasources/shop/policy").json()["given"] == {}


def test_what_is_loaded_once_takes_no_schedule(world, admin) -> None:
    world.onboard("orders", capture="snapshot")
    world.until_live("orders")
    one = f"tables/{world.lake('orders').pk}/policy"
    assert admin("PATCH", one, {"schedule": HOURLY}).status_code == 400
    assert admin("GET", one).json()["schedule_in_words"] == "Loaded once"


def test_policies_want_manage_and_are_seen_by_who_sees_the_thing(
    world, admin, person
) -> None:
    world.onboard("orders")
    world.until_live("orders")
    ann = person("ann2")
    table = f"tables/{world.lake('orders').pk}/policy"
    paths = ["datasources/shop/policy", "datasources/shop/databases/public/policy"]
    for path in [*paths, table]:
        assert ann("GET", path).status_code == 404
        assert ann("PATCH", path, {"lag_seconds": 1}).status_code == 404
    for on in ("shop", "lake.shop.orders"):
        made = {"principal": "user:ann2", "privilege": "operate", "on": on}
        assert admin("POST", "grants", made).status_code == 201
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("catalog.access.audit.record", die)
        for path in [*paths, table]:
            with pytest.raises(Killed):
                admin("PATCH", path, {"lag_seconds": 1})
            # not changed without its line in the audit
            assert "lag_seconds" not in admin("GET", path).json()["given"], path
    for path in [*paths, table]:
        assert ann("GET", path).status_code == 200, path
        assert ann("PATCH", path, {"lag_seconds": 1}).status_code == 403, path
    assert ann("PATCH", "datasources/lake/policy", {}).status_code in {403, 404}
