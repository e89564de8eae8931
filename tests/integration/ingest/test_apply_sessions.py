"""Tables that follow a log: given to the driver's session under a lease, taken back for
jobs, shown as the session reports."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError
from django.db.models.functions import Now
from django.utils import timezone

from catalog.models import Table
from core.models import Job, Lease
from core.sentences import Sentence
from ingest.contract.applying import (
    COLUMNS_UNDECIDED,
    ENDED_BY_LOADS,
    Applied,
    ApplyProblem,
    ApplyReport,
    ApplyTable,
)
from ingest.contract.job import ErrorFact
from ingest.jobs import leases
from ingest.lake.chain import begin_stream, stream_folder, take_over
from ingest.lake.fence import fence_at
from ingest.lake.place import place_at
from ingest.lake.segment_files import SegmentBuilder
from ingest.maintenance import compact_job
from ingest.models import (
    Alert,
    DriverIncarnation,
    MaintenancePlan,
    Pipeline,
    SourceFollower,
)
from ingest.pipelines import log_laggards, log_tables
from ingest.pipelines.apply_reports import Gathered
from ingest.pipelines.apply_work import WantedTables
from ingest.pipelines.lake_reconcile import follow_lake
from ingest.pipelines.policies.store import change_policy, change_table_policy
from ingest.pipelines.schema_drift import NOT_ALL
from ingest.pipelines.table_commands import pause, resume, start_resync
from ingest.pipelines.transitions import lose_position, say
from tests.doubles.launcher import FakeSession, Fault
from tests.doubles.log_source import Row, batch_of
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.integration.ingest.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def log_world(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Tables `first` and `second` are loaded, and follow the source's log."""
    monkeypatch.setattr("ingest.pipelines.apply_reports.WRITE_SECONDS", 0.0)
    monkeypatch.setattr("ingest.pipelines.apply_reports.LEVEL_SECONDS", 0.0)
    world.live("first", "second")
    Pipeline.objects.update(capture="log", state="CATCHING_UP", due_at=None)
    SourceFollower.objects.create(
        datasource=world.source, observed="following", heartbeat_at=Now()
    )
    return world


def session(world: World) -> FakeSession:
    return world.launcher.sessions[f"source{world.source.pk}"]


def given(world: World, name: str) -> ApplyTable | None:
    stream = f"source{world.source.pk}"
    if stream not in world.launcher.sessions:
        return None
    return session(world).tables.get(world.lake(name).pk)


def lease(world: World, name: str) -> Lease:
    table_id = world.lake(name).pk
    return Lease.objects.get(name=leases.lease_name(table_id, leases.WRITE))


def until_given(world: World, *names: str) -> None:
    world.until(lambda: all(given(world, name) for name in names))


def tell(world: World, name: str, **more: Any) -> None:
    standing = {"epoch": 7, "position": "7", "is_live": True, **more}
    session(world).told.append(Applied(world.lake(name).pk, **standing))


def test_each_table_is_given_under_a_lease_of_its_session(log_world: World) -> None:
    until_given(log_world, "first", "second")
    table = given(log_world, "first")
    assert table is not None
    assert fence_at(place_at(table.fence.path)) == table.fence.token
    incarnation = DriverIncarnation.objects.get(ended_at=None)
    owner = f"apply:source{log_world.source.pk}:{incarnation.pk}"
    assert lease(log_world, "first").owner == owner
    assert session(log_world).works[-1].run == owner
    log_world.steps(2)  # a first look at their health, and what it changes
    # what has not changed is not sent again
    sent = len(session(log_world).works)
    log_world.steps(10)
    assert len(session(log_world).works) == sent


def test_leases_are_renewed_while_the_session_reports(log_world: World) -> None:
    until_given(log_world, "first")
    Lease.objects.update(expires_at=Now())
    log_world.until(lambda: Lease.objects.filter(expires_at__gt=Now()).count() == 2)
    session(log_world).is_silent = True
    log_world.steps(3)
    Lease.objects.update(expires_at=Now())
    log_world.steps(3)
    assert not Lease.objects.filter(expires_at__gt=Now()).exists()


def test_a_job_gets_the_table_when_the_session_has_given_it_up(
    log_world: World, admin: Any
) -> None:
    until_given(log_world, "first", "second")
    table, before = log_world.lake("first").pk, given(log_world, "first")
    session(log_world).busy.add(table)
    assert admin("POST", f"tables/{table}:clean").status_code == 202
    log_world.until(lambda: given(log_world, "first") is None)
    log_world.steps(5)
    (job,) = log_world.jobs("repair")
    assert (job.state, job.reason) == ("QUEUED", "waiting for the table's lease")
    assert given(log_world, "second")
    session(log_world).busy.clear()
    log_world.until(lambda: log_world.jobs("repair")[0].state == "SUCCEEDED")
    until_given(log_world, "first")
    after = given(log_world, "first")
    assert before
    assert after
    assert after.fence.token > before.fence.token + 1


def test_a_job_that_only_serves_the_table_runs_beside_the_session(
    log_world: World,
) -> None:
    until_given(log_world, "first", "second")
    log_world.steps(2)  # a first look at their health, and what it changes
    sent = len(session(log_world).works)
    compact_job.start_compaction(log_world.lake("first"), actor="x")
    log_world.until(lambda: log_world.jobs("compact")[0].state == "SUCCEEDED")
    assert len(session(log_world).works) == sent


def test_a_job_that_waits_for_its_lane_keeps_no_table_from_the_session(
    log_world: World, admin: Any
) -> None:
    until_given(log_world, "first", "second")
    Job.objects.bulk_create(
        Job(kind="repair", subject="x", subject_id=str(n), lane="maintenance",
            state="RUNNING", payload={"table": n}, exclusive_key=f"busy {n}",
            handle={"boot": str(DriverIncarnation.objects.get(ended_at=None).pk)})
        for n in range(900_000, 900_008)
    )  # fmt: skip
    table = log_world.lake("first").pk
    assert admin("POST", f"tables/{table}:clean").status_code == 202
    log_world.host.step(0)
    log_world.host.step(0)
    assert given(log_world, "first")


def test_leases_of_a_driver_that_died_are_free_and_all_is_sent_to_the_next(
    log_world: World,
) -> None:
    until_given(log_world, "first", "second")
    before = given(log_world, "first")
    log_world.launcher.kill()
    log_world.until(lambda: len(log_world.launcher.starts) == 2)
    until_given(log_world, "first", "second")
    after = given(log_world, "first")
    assert before
    assert after
    assert after.fence.token > before.fence.token
    assert session(log_world).works[-1].number <= 2


def test_a_host_that_comes_back_frees_what_its_last_driver_held(
    log_world: World,
) -> None:
    until_given(log_world, "first", "second")
    log_world.new_host()
    until_given(log_world, "first", "second")


def test_a_paused_table_is_given_up_and_comes_back_when_it_is_resumed(
    log_world: World,
) -> None:
    until_given(log_world, "first", "second")
    pause(log_world.lake("first"), actor="x")
    log_world.until(lambda: not lease(log_world, "first").owner)
    assert given(log_world, "first") is None
    resume(log_world.lake("first"), actor="x")
    until_given(log_world, "first")


def test_positions_states_and_lag_follow_the_reports(log_world: World) -> None:
    until_given(log_world, "first")
    tell(log_world, "first", instant="20260101", position="42", epoch=42)
    log_world.until(lambda: log_world.pipeline("first").state == "LIVE")
    assert log_world.pipeline("first").position == "42"
    table = log_world.lake("first")
    assert (table.last_commit_epoch, table.last_commit_instant) == (42, "20260101")
    assert table.caught_up_at is not None
    assert log_world.pipeline("second").state == "CATCHING_UP"
    # changes of a day ago wait
    oldest = int((table.caught_up_at.timestamp() - 86_400) * 1e6)
    tell(log_world, "first", epoch=42, position="42", waiting=3, oldest=oldest)
    log_world.until(lambda: log_world.pipeline("first").state == "CATCHING_UP")
    assert "behind its source: 3 segments" in log_world.pipeline("first").status_reason


def problem(world: World, name: str, outcome: Any, code: str) -> None:
    error = ErrorFact(code, "as configured", "look here")
    session(world).problems.append(ApplyProblem(world.lake(name).pk, outcome, error))


def test_what_waits_and_how_fast_it_is_applied_is_shown(log_world: World) -> None:
    until_given(log_world, "first", "second")
    oldest = 1_700_000_000_000_000
    tell(log_world, "first", rows=1000, instant="1", waiting=3, oldest=oldest)
    log_world.until(lambda: log_world.pipeline("first").changes_per_second > 0)
    shown = log_world.pipeline("first")
    assert shown.waiting == 3
    assert shown.waiting_since is not None
    assert shown.waiting_since.timestamp() * 1e6 == oldest
    rate = shown.changes_per_second
    log_world.until(lambda: log_world.pipeline("first").changes_per_second < rate)
    tell(log_world, "first")
    log_world.until(lambda: log_world.pipeline("first").waiting == 0)
    assert log_world.pipeline("first").waiting_since is None


def test_values_that_became_null_are_counted_and_shown(
    log_world: World, admin: Any
) -> None:
    until_given(log_world, "first")
    tell(log_world, "first", lossy={"at": 2})
    tell(log_world, "first", lossy={"at": 1, "n": 4})
    log_world.until(lambda: log_world.pipeline("first").lossy == {"at": 3, "n": 4})
    tell(log_world, "first")
    log_world.steps(2)
    shown = admin("GET", f"datasources/{log_world.source.name}/capture").json()
    lossy = {one["name"].rpartition(".")[2]: one["lossy"] for one in shown["tables"]}
    assert lossy == {"first": {"at": 3, "n": 4}, "second": {}}


@pytest.mark.parametrize("code", sorted(ENDED_BY_LOADS))
def test_what_no_segment_mends_needs_a_resync(log_world: World, code: str) -> None:
    until_given(log_world, "first", "second")
    problem(log_world, "first", "terminal", code)
    log_world.until(lambda: log_world.pipeline("first").state == "NEEDS_RESYNC")
    assert "as configured" in log_world.pipeline("first").status_reason
    log_world.until(lambda: not lease(log_world, "first").owner)
    assert given(log_world, "second")


@pytest.mark.parametrize("code", ["made_up", COLUMNS_UNDECIDED])
@pytest.mark.parametrize("is_begun", [False, True])
def test_what_was_met_before_a_load_does_not_stop_it(
    log_world: World, code: str, is_begun: bool
) -> None:
    """Its follower had found the same first, and somebody began the resync at once."""
    until_given(log_world, "first")
    pipeline = log_world.pipeline("first")
    lose_position(pipeline, reason="its rows were rewritten")
    if is_begun:
        start_resync(log_world.lake("first"), actor="x")
    before = log_world.pipeline("first")
    error = ErrorFact(code, "as configured", "look here")
    met = ApplyProblem(log_world.lake("first").pk, "terminal", error)
    gathered = Gathered()
    gathered.add(ApplyReport("run", "pg1", 1, problems=(met,)))
    gathered.write(at_once=True)
    after = log_world.pipeline("first")
    assert (after.state, after.status_reason) == (before.state, before.status_reason)


def test_what_stays_stops_that_table_alone_until_it_is_resumed(
    log_world: World,
) -> None:
    until_given(log_world, "first", "second")
    before = given(log_world, "first")
    problem(log_world, "first", "terminal", "made_up")
    log_world.until(lambda: log_world.pipeline("first").state == "FAILED")
    resume(log_world.lake("first"), actor="x")
    until_given(log_world, "first")
    after = given(log_world, "first")
    assert before
    assert after
    assert after.fence.token > before.fence.token
    assert log_world.pipeline("second").state == "CATCHING_UP"


def test_what_passes_is_shown_and_goes_with_the_next_report(log_world: World) -> None:
    until_given(log_world, "first")
    problem(log_world, "first", "transient", "disk_full")
    log_world.until(
        lambda: "as configured" in log_world.pipeline("first").status_reason
    )
    assert log_world.pipeline("first").state == "CATCHING_UP"
    tell(log_world, "first")
    log_world.until(lambda: log_world.pipeline("first").state == "LIVE")
    assert log_world.pipeline("first").status_reason == ""
    assert log_world.pipeline("first").failures == 0


def test_a_session_that_reports_nothing_ends_with_its_driver(log_world: World) -> None:
    until_given(log_world, "first")
    session(log_world).is_silent = True
    log_world.until(lambda: len(log_world.launcher.starts) == 2, steps=200)
    until_given(log_world, "first")


def test_there_is_no_sync_to_begin(log_world: World, admin: Any) -> None:
    table = log_world.lake("first").pk
    refused = admin("POST", f"tables/{table}:sync")
    assert (refused.status_code, refused.json()["code"]) == (400, "follows_log")
    assert not [job for job in log_world.jobs("sync") if job.state == "QUEUED"]


def test_a_resync_takes_the_table_and_the_session_goes_on_behind_it(
    log_world: World, admin: Any
) -> None:
    until_given(log_world, "first", "second")
    log_world.fail_with("resync", Fault.NONE)
    table = log_world.lake("first").pk
    assert admin("POST", f"tables/{table}:resync").status_code == 202
    log_world.until(lambda: log_world.jobs("resync")[0].state == "SUCCEEDED")
    until_given(log_world, "first")


def test_planned_compactions_follow_the_reports(
    log_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.pipelines.apply_reports.SEEN_WITHIN", timedelta(0))
    until_given(log_world, "first")
    plans = MaintenancePlan.objects.filter(table=log_world.lake("first"))
    quiet = {"maintenance_window": {"from": "00:00", "to": "00:01"}}
    change_table_policy(log_world.pipeline("first"), quiet)
    tell(log_world, "first", pending_compactions=("20260101",))
    log_world.until(lambda: [plan.state for plan in plans.all()] == ["SCHEDULED"])
    tell(log_world, "first")
    log_world.until(lambda: [plan.state for plan in plans.all()] == ["SUPERSEDED"])


def test_a_table_that_cannot_be_described_holds_up_no_other(log_world: World) -> None:
    broken = log_world.pipeline("first")
    Pipeline.objects.filter(pk=broken.pk).update(plan={"v": 1})
    until_given(log_world, "second")
    assert given(log_world, "first") is None


def test_a_report_that_cannot_be_written_holds_up_no_other(log_world: World) -> None:
    until_given(log_world, "first", "second")
    tell(log_world, "first", epoch=2**70)
    tell(log_world, "second", position="42")
    log_world.until(lambda: log_world.pipeline("second").position == "42")


GIB = 2**30


def test_a_stopped_table_holds_back_only_so_much_of_the_log(log_world: World) -> None:
    change_policy(log_world.source, None, {"max_waiting_bytes": GIB})
    follower = SourceFollower.objects.filter(datasource=log_world.source)
    follower.update(first=100, waiting_bytes=GIB)
    tables = Table.objects.filter(kind=Table.LAKE)
    tables.update(last_commit_epoch=99)
    pause(log_world.lake("first"), actor="x")
    assert log_laggards.give_up_laggards() == 0
    follower.update(waiting_bytes=GIB + 1)
    assert log_laggards.give_up_laggards() == 1
    assert "max_waiting_bytes" in log_world.pipeline("first").status_reason
    # one that goes on is not given up, nor is the same one twice
    assert log_laggards.give_up_laggards() == 0
    resume(log_world.lake("first"), actor="x")
    assert log_world.pipeline("first").state == "NEEDS_RESYNC"
    # what it lacks is not what is kept
    Pipeline.objects.filter(state="CATCHING_UP").update(failures=2)
    tables.update(last_commit_epoch=100)
    assert log_laggards.give_up_laggards() == 0
    tables.update(last_commit_epoch=99)
    assert log_laggards.give_up_laggards() == 1
    assert log_world.pipeline("second").state == "NEEDS_RESYNC"


def test_a_log_waits_only_so_long_for_columns_that_not_all_shards_have(
    log_world: World,
) -> None:
    """Such a table has no failures, and would go on at any moment."""
    change_policy(log_world.source, None, {"max_waiting_bytes": GIB})
    follower = SourceFollower.objects.filter(datasource=log_world.source)
    follower.update(first=100, waiting_bytes=GIB + 1)
    Table.objects.filter(kind=Table.LAKE).update(last_commit_epoch=99)
    first = log_world.pipeline("first")
    assert log_laggards.give_up_laggards() == 0
    met = Sentence("%(name)s was added", name="note")
    say(first, Sentence(NOT_ALL, error=met))
    assert log_laggards.give_up_laggards() == 1
    reason = log_world.pipeline("first").status_reason
    assert "CATCHING_UP (note was added; not all of" in reason
    assert "max_waiting_bytes" in reason
    assert log_world.pipeline("first").state == "NEEDS_RESYNC"
    assert log_world.pipeline("second").state == "CATCHING_UP"


def test_a_log_waits_for_a_stopped_table_only_so_long(log_world: World) -> None:
    """By the age of what is kept for it, not by how long it is stopped."""
    lake = log_world.lake("first")
    folder = stream_folder(
        settings.SLUICE_LAKE_URI, log_tables.stream_of(log_world.source.pk)
    )
    begin_stream(folder, above=99)
    writer = take_over(folder, stream="s", writer="w", server="1", begin="0")
    builder = SegmentBuilder(writer)
    builder.add(lake.pk, 1, batch_of([(1, Row("t", "insert", 1))]))
    hours = timezone.now() - timedelta(hours=3)
    kept = builder.close(end="1", committed=int(hours.timestamp() * 1e6))
    follower = SourceFollower.objects.filter(datasource=log_world.source)
    follower.update(first=kept.number, waiting_bytes=100)
    tables = Table.objects.filter(kind=Table.LAKE)
    tables.update(last_commit_epoch=100, caught_up_at=hours)
    change_policy(log_world.source, None, {"max_waiting_seconds": 7200})
    assert log_laggards.give_up_laggards() == 0, "it goes on"
    pause(log_world.lake("second"), actor="x")
    assert log_laggards.give_up_laggards() == 0, "nothing is kept for it"
    pause(log_world.lake("first"), actor="x")
    change_policy(log_world.source, None, {"max_waiting_seconds": 4 * 3600})
    assert log_laggards.give_up_laggards() == 0
    change_policy(log_world.source, None, {"max_waiting_seconds": 7200})
    # one that has applied less, and needs nothing of what is kept, hides no other
    tables.filter(pk=log_world.lake("second").pk).update(last_commit_epoch=99)
    assert log_laggards.give_up_laggards() == 1
    assert "max_waiting_seconds" in log_world.pipeline("first").status_reason
    assert log_laggards.give_up_laggards() == 0
    assert log_world.pipeline("second").state == "PAUSED"


def test_a_removed_table_is_given_up_first(log_world: World, admin: Any) -> None:
    until_given(log_world, "first", "second")
    table = log_world.lake("first").pk
    session(log_world).busy.add(table)
    assert admin("POST", f"tables/{table}:remove", {"data": "drop"}).status_code == 202
    log_world.until(lambda: table not in session(log_world).tables)
    log_world.steps(3)
    assert log_world.jobs("remove")[0].state == "QUEUED"
    session(log_world).busy.clear()
    log_world.until(lambda: log_world.jobs("remove")[0].state == "SUCCEEDED")
    assert given(log_world, "second")


def test_a_table_of_wide_rows_is_compacted_in_a_driver_of_its_own(
    log_world: World,
) -> None:
    """Only drivers that share a lock may write to one table."""
    until_given(log_world, "first", "second")
    tell(log_world, "first", is_wide=True)
    log_world.until(lambda: bool(log_world.pipeline("first").alone_reason))
    assert not log_world.pipeline("second").alone_reason
    table = log_world.lake("first")
    compact_job.start_compaction(table, actor="x")
    log_world.until(lambda: log_world.jobs("compact")[0].state == "SUCCEEDED")
    (job,) = log_world.jobs("compact")
    assert job.handle["scopes"] == ["write", "service"]
    until_given(log_world, "first")


def test_what_stops_a_table_is_an_alert_until_it_recovers(log_world: World) -> None:
    until_given(log_world, "first", "second")
    alerts = Alert.objects.filter(kind="failed", closed_at=None)
    for number in range(3):
        problem(log_world, "first", "transient", "disk_full")
        # that more waits for it is no recovery
        tell(log_world, "first", waiting=number)
        log_world.steps(1)
    assert log_world.pipeline("first").failures == 2
    log_world.until(lambda: [one.code for one in alerts.all()] == ["disk_full"])
    tell(log_world, "first")
    log_world.until(lambda: not alerts.exists())
    problem(log_world, "second", "terminal", "needs_resync")
    log_world.until(lambda: [one.code for one in alerts.all()] == ["needs_resync"])


def test_a_table_that_its_stream_leaves_out_is_not_level(log_world: World) -> None:
    """Its rows come no more, so nothing of it waits."""
    until_given(log_world, "first", "second")
    tell(log_world, "first", is_followed=False, instant="1", epoch=8)
    tell(log_world, "second", epoch=8)
    before = log_world.lake("first").caught_up_at
    log_world.until(lambda: log_world.pipeline("second").state == "LIVE")
    assert log_world.lake("first").last_commit_epoch == 8
    assert log_world.lake("first").caught_up_at == before
    assert log_world.pipeline("first").state == "CATCHING_UP"
    # and becomes late by what it had
    tell(log_world, "first", epoch=8)
    log_world.until(lambda: log_world.pipeline("first").state == "LIVE")
    ago = Now() - timedelta(days=1)
    Table.objects.filter(pk=log_world.lake("first").pk).update(caught_up_at=ago)
    tell(log_world, "first", is_followed=False, epoch=8)
    log_world.until(lambda: log_world.pipeline("first").state == "CATCHING_UP")


def test_rows_that_were_not_written_since_are_not_read_again(
    log_world: World, django_assert_num_queries: Any
) -> None:
    read = WantedTables()
    first, second = (log_world.lake(name).pk for name in ("first", "second"))
    before = read.read()
    [stream] = before
    with django_assert_num_queries(3):
        assert read.read() == before
    change_table_policy(log_world.pipeline("first"), {"freshness_seconds": 7})
    tables = read.read()[stream].tables
    assert tables[first].policy.freshness == 7
    assert tables[second] is before[stream].tables[second]


def test_what_was_reported_while_the_database_is_away_is_written_later(
    log_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    until_given(log_world, "first")
    report = Applied(log_world.lake("first").pk, 7, "42", is_live=True)
    gathered = Gathered()
    gathered.expect(WantedTables().read())
    gathered.add(ApplyReport("run", "pg1", 1, applied=(report,)))
    with monkeypatch.context() as away:

        def refuse(self: Any) -> None:
            raise OperationalError("the connection is closed")

        away.setattr("ingest.pipelines.apply_reports.AppliedRows.write", refuse)
        away.setattr("ingest.pipelines.apply_reports.is_away", lambda error: True)
        with pytest.raises(OperationalError):
            gathered.write()
    gathered.write()
    assert log_world.pipeline("first").position == "42"


def test_where_rows_and_lake_differ_the_lake_is_right(log_world: World) -> None:
    until_given(log_world, "first")
    pipeline, table = log_world.pipeline("first"), log_world.lake("first")
    known = table.last_commit_epoch
    assert known
    Table.objects.filter(pk=table.pk).update(last_commit_epoch=known - 1)
    assert "newer commits" in follow_lake(log_world.pipeline("first"))
    assert log_world.lake("first").last_commit_epoch == known
    Table.objects.filter(pk=table.pk).update(last_commit_epoch=known + 5)
    Pipeline.objects.filter(pk=pipeline.pk).update(state="LIVE", position="later")
    assert "went back" in follow_lake(log_world.pipeline("first"))
    found = log_world.pipeline("first")
    assert (found.state, found.due_at) == ("CATCHING_UP", None)
    assert found.position != "later"


def test_a_change_of_policy_or_plan_is_sent(log_world: World) -> None:
    until_given(log_world, "first", "second")

    def freshness(name: str) -> float:
        found = given(log_world, name)
        return found.freshness if found else 0.0

    change_policy(log_world.source, None, {"freshness_seconds": 2})
    log_world.until(lambda: freshness("second") == 2.0)
    change_table_policy(log_world.pipeline("first"), {"freshness_seconds": 1})
    log_world.until(lambda: freshness("first") == 1.0)
    assert freshness("second") == 2.0
    before = given(log_world, "first")
    Table.objects.filter(pk=log_world.lake("first").pk).update(schema_version=2)
    log_world.until(lambda: given(log_world, "first") != before)
    after = given(log_world, "first")
    assert after
    assert after.table.schema_version == 2
