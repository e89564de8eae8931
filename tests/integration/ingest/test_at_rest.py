"""What is done while nothing happens, counted: each statement is paid all day, and
those about tables once for each of hundreds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.db.models.functions import Now
from django.db.models.sql.compiler import SQLCompiler
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from catalog.models import Table
from ingest.alerts import lag
from ingest.contract.applying import Applied
from ingest.maintenance import verification_schedule
from ingest.models import Alert, Pipeline, SourceFollower
from ingest.pipelines import deferred_onboardings, needed_resync_jobs, new_tables
from tests.integration.ingest.world import World

pytestmark = pytest.mark.django_db
STEP = 0.25


@dataclass
class Clock:
    """pace: by how much each look at it puts it on."""

    now: float = 1000.0
    pace: float = 1.0

    def __call__(self) -> float:
        self.now += self.pace
        return self.now


@pytest.fixture
def world(db: Any) -> World:
    return World.make(clock=Clock())


@pytest.fixture
def at_rest(world: World) -> World:
    """Tables `first` and `second` follow a log of which nothing comes."""
    world.live("first", "second")
    Pipeline.objects.update(capture="log", due_at=None)
    SourceFollower.objects.create(
        datasource=world.source, observed="following", heartbeat_at=Now()
    )
    world.until(lambda: bool(world.launcher.sessions))
    assert isinstance(world.clock, Clock)
    world.clock.pace = 0.0
    return world


def minute(world: World) -> Iterator[None]:
    """Steps of the driver host."""
    assert isinstance(world.clock, Clock)
    until = world.clock.now + 60
    while world.clock.now < until:
        world.clock.now += STEP
        world.host.step(0)
        yield


def of(seen: CaptureQueriesContext, what: str) -> list[str]:
    """The statements that have it."""
    sent = [one["sql"] or "" for one in seen]
    return [sql for sql in sent if what in sql]


def statements_of_a_minute(world: World, what: str) -> int:
    with CaptureQueriesContext(connection) as seen:
        for _ in minute(world):
            pass
    return len(of(seen, what))


def test_leases_of_tables_are_renewed_some_times_in_a_lease(at_rest: World) -> None:
    leases_in_it = 60 / settings.SLUICE_LEASE_SECONDS
    renewed = statements_of_a_minute(at_rest, 'UPDATE "core_lease" SET "expires_at"')
    assert 3 * leases_in_it < renewed <= 6 * leases_in_it


MOMENTS = "UPDATE catalog_table t SET\n  caught_up_at = greatest("


def moments(world: World, monkeypatch: pytest.MonkeyPatch) -> CaptureQueriesContext:
    """Statements of some minutes, in which tables at rest get newer moments."""
    monkeypatch.setattr("ingest.pipelines.apply_reports.WRITE_SECONDS", 0.0)
    monkeypatch.setattr("ingest.pipelines.apply_reports.LEVEL_SECONDS", 0.0)
    # what was reported when they were given
    world.steps(10)
    with CaptureQueriesContext(connection) as seen:
        # how many looks a minute has depends on how long each takes here
        while len(of(seen, MOMENTS)) < 3:
            for _ in minute(world):
                pass
    return seen


def test_a_newer_moment_is_one_statement_for_all_tables_and_nothing_is_read_again(
    at_rest: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("first", "second")
    before = [at_rest.lake(name).caught_up_at for name in names]
    seen = moments(at_rest, monkeypatch)
    assert not of(seen, '"ingest_pipeline"."lossy"'), "no row is read"
    assert not of(seen, "UPDATE ingest_pipeline")
    assert not of(seen, "p.plan"), "a plan is large"
    assert not of(seen, '"ingest_tablehealth"."facts"')
    [moment] = {at_rest.lake(name).caught_up_at for name in names}
    assert moment
    assert all(was and moment > was for was in before)


def test_tables_that_only_got_newer_moments_are_not_late(at_rest: World) -> None:
    now = timezone.now()
    Pipeline.objects.update(late_at=now, due_since=now - timedelta(hours=1))
    Table.objects.filter(kind="lake").update(caught_up_at=now)
    assert lag.open_late() == 2
    assert not Alert.objects.exists()
    assert at_rest.pipeline("first").late_at == now + timedelta(seconds=900)


@pytest.mark.parametrize("rows", [0, 1])
def test_a_reader_that_is_away_for_a_moment_makes_no_table_late(
    at_rest: World, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """Its source's last commit is of yesterday: that was taken for all that the tables
    have, so each start of a reader made all of them late."""
    monkeypatch.setattr("ingest.pipelines.apply_reports.WRITE_SECONDS", 0.0)
    before = at_rest.lake("first").caught_up_at
    assert before is not None
    yesterday = Now() - timedelta(days=1)
    SourceFollower.objects.update(observed="starting", committed_at=yesterday)
    [session] = at_rest.launcher.sessions.values()
    told = Applied(at_rest.lake("first").pk, 7, "7", is_live=True, rows=rows)
    session.told.append(told)
    for _ in minute(at_rest):
        if at_rest.lake("first").last_commit_epoch == 7:
            break
    assert at_rest.lake("first").last_commit_epoch == 7
    assert at_rest.lake("first").caught_up_at == before
    assert at_rest.pipeline("first").state == "LIVE"


@pytest.mark.parametrize(
    "part",
    [
        lag.open_late,
        verification_schedule.start_due_verifications,
        new_tables.take_new_tables,
        deferred_onboardings.plan_waiting,
        needed_resync_jobs.start_needed,
    ],
)
def test_a_part_of_the_tick_builds_no_query_where_nothing_waits(
    at_rest: World, part: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    part()
    built = []
    as_sql = SQLCompiler.as_sql

    def note(compiler: SQLCompiler, *given: Any, **more: Any) -> Any:
        built.append(compiler.query)
        return as_sql(compiler, *given, **more)

    monkeypatch.setattr(SQLCompiler, "as_sql", note)
    assert part() == 0
    assert not built
