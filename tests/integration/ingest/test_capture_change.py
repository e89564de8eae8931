"""A live table that is synced by a cursor goes over to its source's log, and back."""

from __future__ import annotations

from typing import Any

import pytest

from core.errors import InvalidRequest, TransientError
from core.models import Job
from ingest.actions.registry import ACTIONS, preview
from ingest.contract.applying import LEFT_LOG, ApplyProblem, ApplyReport
from ingest.contract.job import ErrorFact
from ingest.jobs.kinds import Left
from ingest.models import Pipeline, SourceFollower
from ingest.pipelines import apply_reports, log_tables, sync_job, table_commands
from ingest.pipelines.capture_change import follow_cursor, follow_log
from ingest.pipelines.lake_reconcile import note_restored
from tests.doubles.launcher import Fault
from tests.integration.catalog.conftest import *  # noqa: F403  the same people

pytestmark = pytest.mark.django_db
# without long values, which a log may leave out
COLUMNS = (
    ("id", "bigint", "bigint", False, 1),
    ("price", "integer", "int", True, 0),
    ("updated_at", "timestamp with time zone", "timestamp", False, 0),
)
AT = "lsn:7:1:0/9"


@pytest.fixture
def live(world: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    from tests.integration.ingest import world as worlds

    made = worlds.make_tables
    monkeypatch.setattr(worlds, "make_tables", lambda *a: made(*a, columns=COLUMNS))
    world.live("orders")
    world.launcher.facts["resync"] = {"epoch": 1005, "bound": AT}
    return world


def works(world: Any) -> list[Any]:
    return [s.snapshot for s in world.launcher.submitted if s.kind == "resync"]


def test_it_is_said_and_done(live: Any, admin: Any) -> None:
    path = f"tables/{live.lake('orders').pk}:follow-log"
    said = admin("POST", path, {"dry_run": True})
    assert said.status_code == 200, said.content
    assert "without their updated_at" in " ".join(said.json()["will"])
    assert live.pipeline("orders").capture == "timestamp"
    syncs = len(live.jobs("sync"))
    assert admin("POST", path).status_code == 202
    row = live.pipeline("orders")
    assert (row.capture, row.state, row.lake_table.cursor) == ("log", "RESYNCING", "")
    live.until(lambda: live.pipeline("orders").state == "CATCHING_UP")
    (work,) = works(live)
    assert work.behind == "updated_at"
    (one,) = log_tables.followed_tables(live.source)
    assert (one.load, one.finished_at) == (work.log.load, AT)
    assert one.table.cursor is None
    assert live.lake("orders").last_commit_epoch == 1005
    live.steps(10)
    assert len(live.jobs("sync")) == syncs
    refused = admin("POST", path).json()
    assert (refused["code"], "already" in refused["hint"]) == ("not_now", True)
    # what is loaded again later is all of it
    table_commands.start_resync(live.lake("orders"), actor="ann")
    live.until(lambda: len(works(live)) == 2)
    assert works(live)[1].behind == ""


@pytest.mark.parametrize("fault", [Fault.TERMINAL, Fault.HANG])
def test_what_does_not_end_well_changes_nothing(live: Any, fault: Fault) -> None:
    before = live.pipeline("orders")
    live.fail_with("resync", fault)
    job = follow_log(live.lake("orders"), actor="ann")
    if fault == Fault.HANG:
        live.until(lambda: live.jobs("resync")[-1].state == "RUNNING")
        table_commands.cancel_job(job.pk, actor="ann")
    live.until_live("orders")
    row = live.pipeline("orders")
    assert (row.capture, row.plan, row.load_name) == ("timestamp", before.plan, "")
    assert row.lake_table.cursor == "updated_at"
    assert row.position >= before.position
    assert log_tables.followed_tables(live.source) == ()
    assert live.jobs("sync")[-1].state == "SUCCEEDED"


def test_a_pause_before_it_began_keeps_what_it_is(live: Any) -> None:
    follow_log(live.lake("orders"), actor="ann")
    table_commands.pause(live.lake("orders"), actor="ann")
    table_commands.resume(live.lake("orders"), actor="ann")
    live.until(lambda: live.pipeline("orders").state == "CATCHING_UP")
    assert [work.behind for work in works(live)] == ["updated_at"]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"capture": "snapshot"}, "not_now"),
        ({"state": "CATCHING_UP"}, "not_now"),
        ({"drift": {"x": {"state": "pending"}}}, "not_now"),
    ],
)
def test_only_a_settled_table_goes_over(live: Any, changes: Any, code: str) -> None:
    Pipeline.objects.update(**changes)
    for ask in (
        lambda table: preview(ACTIONS["follow-log"], table, {}),
        lambda table: follow_log(table, actor="ann"),
    ):
        with pytest.raises(InvalidRequest) as refused:
            ask(live.lake("orders"))
        assert refused.value.code == code


def test_numbers_of_syncs_must_be_below_those_of_the_stream(live: Any) -> None:
    table = live.lake("orders")
    epoch = table.last_commit_epoch
    follower = SourceFollower.objects.create(datasource=live.source, number=epoch)
    with pytest.raises(InvalidRequest, match="numbered up to"):
        preview(ACTIONS["follow-log"], table, {})
    SourceFollower.objects.filter(pk=follower.pk).update(number=epoch + 1)
    assert preview(ACTIONS["follow-log"], table, {})


def test_long_values_need_whole_rows_in_the_log(live: Any) -> None:
    table = live.pipeline("orders").source_table
    log = {"is_full": False, "identity": ["id"], "may_publish": True}
    table.identity = {**table.identity, "log": log}
    table.save()
    assert preview(ACTIONS["follow-log"], live.lake("orders"), {})
    row = live.pipeline("orders")
    step = row.plan["steps"][0]
    step["columns"][1]["type"] = "string"
    row.save()
    with pytest.raises(InvalidRequest, match="REPLICA IDENTITY FULL"):
        preview(ACTIONS["follow-log"], live.lake("orders"), {})


# ------------------------------------------------------------------- log -> cursor

FIRST = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}


@pytest.fixture
def logged(live: Any) -> Any:
    """The same table, LIVE by its log."""
    follow_log(live.lake("orders"), actor="ann")
    live.until(lambda: live.pipeline("orders").state == "CATCHING_UP")
    Pipeline.objects.update(state="LIVE")
    live.launcher.facts["sync"] = {"position": FIRST, "epoch": 1009}
    return live


def syncs(world: Any) -> list[Any]:
    return [s for s in world.launcher.submitted if s.kind == "sync" and s.sync.stream]


def test_back_to_a_cursor_without_a_load(logged: Any, admin: Any) -> None:
    path = f"tables/{logged.lake('orders').pk}:follow-cursor"
    said = admin("POST", path, {"dry_run": True})
    assert said.status_code == 200, said.content
    assert "a later updated_at are read" in " ".join(said.json()["will"])
    loads = len(works(logged))
    assert admin("POST", path).status_code == 202
    # it is followed until its commit is there
    assert len(log_tables.followed_tables(logged.source)) == 1
    logged.until(lambda: logged.pipeline("orders").capture == "timestamp")
    (spec,) = syncs(logged)
    assert (spec.table.cursor, spec.sync.low) == ("updated_at", None)
    assert spec.sync.stream == log_tables.stream_of(logged.source.pk)
    row = logged.pipeline("orders")
    assert (row.state, row.position, row.load_name) == ("LIVE", FIRST["to"], "")
    assert (row.lake_table.cursor, len(works(logged))) == ("updated_at", loads)
    assert log_tables.followed_tables(logged.source) == ()
    # and by the plan from then on
    table_commands.start_sync(row.lake_table, actor="ann")
    logged.until(lambda: logged.launcher.submitted[-1].kind == "sync")
    logged.until(lambda: all(job.is_finished for job in logged.jobs("sync")))
    assert logged.launcher.submitted[-1].sync.low == FIRST["to"]
    assert len(syncs(logged)) == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("manual", "It has no schedule"),
        ({"every_seconds": 300}, "synced by its schedule: Every 5 minutes"),
    ],
)
def test_the_way_back_says_what_brings_rows_from_then_on(
    logged: Any, admin: Any, given: Any, words: str
) -> None:
    """A log brings them by itself, a cursor does not."""
    Pipeline.objects.update(policy={"schedule": given})
    path = f"tables/{logged.lake('orders').pk}:follow-cursor"
    said = admin("POST", path, {"dry_run": True})
    assert words in " ".join(said.json()["will"])


@pytest.mark.parametrize("is_committed", [False, True])
def test_what_the_lake_has_decides(
    logged: Any, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    """The job fails: before its commit, or behind it."""
    left = Left({"position": FIRST, "epoch": 1009} if is_committed else None)
    monkeypatch.setattr(sync_job, "left_by", lambda *_: left)
    monkeypatch.setattr(sync_job, "read_lake_table", lambda _: None)
    before = logged.pipeline("orders")
    logged.fail_with("sync", Fault.TERMINAL)
    job = follow_cursor(logged.lake("orders"), actor="ann")
    logged.until(lambda: Job.objects.get(pk=job.pk).is_finished)
    row = logged.pipeline("orders")
    if is_committed:
        assert (row.capture, row.position) == ("timestamp", FIRST["to"])
        return
    assert (row.capture, row.plan, row.state) == ("log", before.plan, "LIVE")
    assert len(log_tables.followed_tables(logged.source)) == 1


def test_a_lake_that_cannot_be_read_decides_once_it_can(
    logged: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: str) -> None:
        raise TransientError("the store is away")

    left = Left({"position": FIRST, "epoch": 1009})
    monkeypatch.setattr(sync_job, "left_by", lambda *_: left)
    monkeypatch.setattr(sync_job, "read_lake_table", away)
    monkeypatch.setattr(apply_reports, "GO_OVER_SECONDS", 0.0)
    logged.fail_with("sync", Fault.TERMINAL)
    job = follow_cursor(logged.lake("orders"), actor="ann")
    logged.until(lambda: Job.objects.get(pk=job.pk).is_finished)
    refused = ErrorFact(LEFT_LOG, "the newest commit is of a sync by its cursor")
    met = ApplyProblem(logged.lake("orders").pk, "transient", refused)
    gathered = apply_reports.Gathered()
    for _ in range(3):
        gathered.add(ApplyReport("run", "pg1", 1, problems=(met,)))
        gathered.write(at_once=True)
        assert logged.pipeline("orders").capture == "log"
    monkeypatch.setattr(sync_job, "read_lake_table", lambda _: None)
    # its end decides
    Job.objects.filter(pk=job.pk).update(state="RUNNING")
    gathered.add(ApplyReport("run", "pg1", 1, problems=(met,)))
    gathered.write(at_once=True)
    assert logged.pipeline("orders").capture == "log"
    Job.objects.filter(pk=job.pk).update(state="FAILED")
    gathered.add(ApplyReport("run", "pg1", 1, problems=(met,)))
    gathered.write(at_once=True)
    row = logged.pipeline("orders")
    assert (row.capture, row.position) == ("timestamp", FIRST["to"])


def test_what_is_restored_of_the_log_needs_a_resync(logged: Any) -> None:
    """No cursor goes on from a place in a log."""
    lake = logged.lake("orders")
    follow_cursor(lake, actor="ann")
    logged.until(lambda: logged.pipeline("orders").capture == "timestamp")
    row = logged.pipeline("orders")
    note_restored(row, {"restored": "1", "instant": "1", "position": {"to": AT}})
    row = logged.pipeline("orders")
    assert row.state == "NEEDS_RESYNC"
    assert "when it followed its source's log" in row.status_reason


def test_a_cursor_is_a_time(logged: Any) -> None:
    table = logged.lake("orders")
    with pytest.raises(InvalidRequest, match="must be a timestamp"):
        follow_cursor(table, actor="ann", cursor="price")
    follow_cursor(table, actor="ann", cursor="updated_at")
    logged.until(lambda: logged.pipeline("orders").capture == "timestamp")
    with pytest.raises(InvalidRequest, match="does not follow a log"):
        follow_cursor(table, actor="ann")
