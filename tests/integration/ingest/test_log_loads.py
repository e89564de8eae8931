"""Loads of tables that are followed by their log: named, given up, and taken over."""

from __future__ import annotations

from typing import Any

import pytest

from core.errors import InvalidRequest
from core.models import Job
from ingest.contract.job import CUT_GONE, CUT_MISSING, LogLoad
from ingest.models import SourceFollower
from ingest.pipelines import log_tables, table_commands
from tests.doubles.launcher import Fault
from tests.integration.ingest.test_log_columns import note_log
from tests.integration.ingest.test_needed_resync import resync_is_cancelled
from tests.integration.ingest.test_schema_drift import alter
from tests.long_tests import first_then_long

pytestmark = pytest.mark.django_db

AT = "lsn:7:1:0/5"


@pytest.fixture
def world(world: Any) -> Any:
    world.launcher.facts["snapshot"] = {"epoch": 1001, "bound": AT}
    world.launcher.facts["resync"] = {"epoch": 1005, "bound": "lsn:7:1:0/9"}
    return world


def onboarded(world: Any) -> Any:
    world.onboard("orders", capture="log")
    return world


def loaded(world: Any) -> Any:
    onboarded(world)
    world.until(lambda: world.pipeline("orders").state == "CATCHING_UP")
    return world


def logs(world: Any) -> list[LogLoad]:
    return [s.snapshot.log for s in world.launcher.submitted if s.snapshot]


def told(world: Any) -> tuple[str, str, str]:
    (one,) = log_tables.followed_tables(world.source)
    return one.load, one.finished_at, one.deferred


def test_a_load_has_a_name_and_says_where_it_was_read(world: Any) -> None:
    loaded(world)
    (log,) = logs(world)
    assert log.stream == f"source{world.source.pk}"
    row = world.pipeline("orders")
    assert (row.load_name, row.bound, row.position) == (log.load, AT, AT)
    assert world.lake("orders").last_commit_epoch == 1001
    assert (row.due_at, row.lake_table.cursor) == (None, "")
    assert row.late_at is not None, "its changes are due at once"
    assert told(world) == (log.load, AT, "")
    world.steps(20)
    assert world.jobs("sync") == []
    with pytest.raises(InvalidRequest, match="follows its source"):
        table_commands.start_sync(world.lake("orders"), actor="ann")


def test_attempts_have_one_name_until_nothing_waits_behind_it(world: Any) -> None:
    missing = [f"{CUT_MISSING} transient"] * 8
    world.launcher.errors["snapshot"] = [*missing, f"{CUT_GONE} transient"]
    loaded(world)
    (job,) = world.jobs("snapshot")
    assert (job.state, job.attempts) == ("SUCCEEDED", 10)
    names = [log.load for log in logs(world)]
    assert len(set(names[:9])) == 1
    assert names[9] != names[0]
    assert world.pipeline("orders").load_name == names[9]


@pytest.mark.parametrize("is_new_job", first_then_long(False, True))
def test_an_attempt_that_reads_more_columns_begins_behind_another_cut(
    world: Any, is_new_job: bool
) -> None:
    loaded(world)
    world.fail_with("resync", Fault.HANG)
    table_commands.start_resync(world.lake("orders"), actor="ann")
    world.until(lambda: world.jobs("resync")[-1].state == "RUNNING")
    note_log(world)
    alter(world, note=("text", "string"))
    if is_new_job:
        table_commands.pause(world.lake("orders"), actor="ann")
        world.until(lambda: world.jobs("resync")[-1].state == "CANCELLED")
        table_commands.resume(world.lake("orders"), actor="ann")
    else:
        world.launcher.kill()
    world.until(lambda: world.pipeline("orders").state == "CATCHING_UP")
    first, *_, last = [s for s in world.launcher.submitted if s.kind == "resync"]
    assert last.table.columns[-1].source_name == "note"
    assert last.snapshot.log.load != first.snapshot.log.load
    assert told(world)[:2] == (last.snapshot.log.load, "lsn:7:1:0/9")


def test_a_first_load_that_was_cancelled_goes_on_under_its_name(world: Any) -> None:
    world.fail_with("snapshot", Fault.HANG)
    onboarded(world)
    world.until(lambda: world.jobs("snapshot")[-1].state == "RUNNING")
    table_commands.cancel_job(world.jobs("snapshot")[-1].pk, actor="ann")
    world.until(lambda: world.pipeline("orders").state == "PAUSED")
    name, finished_at, _ = told(world)
    assert (name, finished_at) == (logs(world)[0].load, "")
    table_commands.resume(world.lake("orders"), actor="ann")
    world.until(lambda: world.pipeline("orders").state == "CATCHING_UP")
    assert told(world) == (name, AT, "")


def test_a_resync_that_is_cancelled_is_told_as_over(world: Any) -> None:
    loaded(world)
    first = told(world)[0]
    world.fail_with("resync", Fault.HANG)
    table_commands.start_resync(world.lake("orders"), actor="ann")
    resync_is_cancelled(world)
    given_up, finished_at, _ = told(world)
    assert given_up not in {"", first}
    position = world.pipeline("orders").position
    assert finished_at == position != "", "the follower lets what is loaded go on"
    table_commands.retry_job(world.jobs("resync")[-1].pk, actor="ann")
    world.until(lambda: world.pipeline("orders").state == "CATCHING_UP")
    again, finished_at, _ = told(world)
    assert again not in {first, given_up}, "the table went on beyond the former cut"
    assert finished_at == "lsn:7:1:0/9"
    assert world.lake("orders").last_commit_epoch == 1005


def test_a_paused_table_goes_on_without_a_job(world: Any) -> None:
    loaded(world)
    count = len(world.launcher.submitted)
    table_commands.pause(world.lake("orders"), actor="ann")
    table_commands.resume(world.lake("orders"), actor="ann")
    world.steps(10)
    row = world.pipeline("orders")
    assert (row.state, row.due_at) == ("CATCHING_UP", None)
    assert len(world.launcher.submitted) == count


def test_a_load_waits_without_a_driver_for_a_follower_that_lags(world: Any) -> None:
    """It tried once, for the stream may have its beginning already; and again after a
    while, for a follower may lag for ever behind a source that is written to."""
    follower = SourceFollower.objects.create(
        datasource=world.source,
        observed="following",
        log_behind=3_000_000_000,
        rows_per_second=54_321.4,
    )
    world.launcher.errors["snapshot"] = [f"{CUT_MISSING} transient"] * 2

    def go_on() -> Any:
        Job.objects.update(not_before=None)
        world.steps(10)
        (job,) = world.jobs("snapshot")
        return job

    onboarded(world)
    world.until(lambda: world.jobs("snapshot")[-1].attempts == 1)
    for _ in range(3):
        job = go_on()
        assert (job.state, job.attempts) == ("QUEUED", 1)
    assert job.reason == (
        f"waits for the log of {world.source.name}: 3000 MB of it are not read yet,"
        " and 54321 rows a second are"
    )
    long_ago = "2026-01-01T00:00:00+00:00"
    Job.objects.update(handle={**job.handle, "put_off_since": long_ago})
    assert go_on().attempts == 2
    SourceFollower.objects.filter(pk=follower.pk).update(log_behind=1_000_000)
    Job.objects.update(not_before=None)
    world.until(lambda: world.pipeline("orders").state == "CATCHING_UP")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"desired": "STOPPED"}, "whose reading was stopped"),
        ({"observed": "waiting", "reason": "no slot is free"}, "no slot is free"),
        ({"observed": "failed", "reason": "the slot is lost"}, "the slot is lost"),
    ],
)
def test_a_load_waits_without_a_driver_for_a_log_that_is_not_read(
    world: Any, changes: dict[str, str], reason: str
) -> None:
    SourceFollower.objects.create(datasource=world.source, **changes)
    onboarded(world)
    world.steps(10)
    (job,) = world.jobs("snapshot")
    assert (job.state, job.attempts) == ("QUEUED", 0)
    assert reason in job.reason
    assert told(world)[0] != "", "its follower marks where it begins"
    SourceFollower.objects.update(desired="RUNNING", observed="following")
    Job.objects.update(not_before=None)
    world.until(lambda: world.pipeline("orders").state == "CATCHING_UP")
