"""What ingestion tests act on: catalog rows, the host, and time in whole steps."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from catalog.access.policy import Principal
from catalog.models import Column, Database, Datasource, Table
from catalog.secrets import encrypt
from core.models import Job
from ingest.driver_host.host import DriverHost
from ingest.models import Onboarding, Pipeline
from ingest.pipelines import onboarding, sync_job
from ingest.pipelines.requests import parse_request
from ingest.scheduler import tick
from tests.doubles.launcher import FakeLauncher, Fault
from tests.integration.ingest import beginnings

# Of the tick's time: what somebody waits for is done at each step, the rest less often.
STEP_SECONDS = 5.0
# From a request to a table that is live, when nothing comes between.
LOAD_STEPS = 8
ANN = Principal("ann", is_admin=True)
COLUMNS = (
    ("id", "bigint", "bigint", False, 1),
    ("name", "text", "string", True, 0),
    ("updated_at", "timestamp with time zone", "timestamp", False, 0),
)


def make_source(name: str = "shop") -> Datasource:
    return Datasource.objects.create(
        name=name,
        kind="postgresql",
        host="127.0.0.1",
        port=5432,
        database="shop",
        username="reader",
        secret=encrypt("canary-password"),
    )


def make_tables(
    source: Datasource, names: list[str], columns=COLUMNS, *, database: str = "public"
) -> list[Table]:
    schema, _ = Database.objects.get_or_create(datasource=source, name=database)
    tables = Table.objects.bulk_create(
        [
            Table(
                database=schema,
                name=name,
                source_name=name,
                schema_fingerprint="as-planned",
                estimated_rows=1000,
                estimated_bytes=100_000,
                identity={"indexed": ["id", "updated_at"], "unique_indexes": []},
            )
            for name in names
        ]
    )
    Column.objects.bulk_create(
        [
            Column(
                table=table,
                position=position,
                name=column,
                source_name=column,
                source_type=source_type,
                type=lake_type,
                nullable=nullable,
                key=key,
            )
            for table in tables
            for position, (column, source_type, lake_type, nullable, key) in enumerate(
                columns, start=1
            )
        ]
    )
    return tables


def new_ticking() -> tick.Ticking:
    return tick.Ticking(itertools.count(0.0, STEP_SECONDS).__next__)


@dataclass
class World:
    source: Datasource
    launcher: FakeLauncher
    host: DriverHost
    clock: Callable[[], float]
    ticking: tick.Ticking = field(default_factory=new_ticking)

    @classmethod
    def make(cls, clock: Callable[[], float]) -> World:
        launcher = FakeLauncher()
        return cls(make_source(), launcher, DriverHost(launcher, clock=clock), clock)

    def onboard(self, *names: str, **more: Any) -> Onboarding:
        make_tables(self.source, list(names))
        body = {
            "datasource": self.source.name,
            "include": [f"public.{name}" for name in names],
            "capture": "timestamp",
            "approve": True,
            **more,
        }
        return onboarding.start_onboarding(parse_request(body), principal=ANN)

    def live(self, *names: str, **more: Any) -> None:
        """`onboard`, then `until_live`, as a test begins: once in a file, copied then."""
        beginnings.begin_live(self, *names, **more)

    def new_host(self) -> None:
        """The host died; another one starts with an empty memory."""
        self.launcher = FakeLauncher(faults=self.launcher.faults)
        self.host = DriverHost(self.launcher, clock=self.clock)

    def steps(self, count: int = 10) -> None:
        for _ in range(count):
            self.host.step(0)
            self.ticking.tick()

    def until(self, check: Callable[[], bool], *, steps: int = 60) -> None:
        for _ in range(steps):
            if check():
                return
            self.steps(1)
        raise AssertionError(f"not after {steps} steps; jobs: {self.story()}")

    def until_live(self, *names: str) -> None:
        """By what loads need alone: a third of the statements of whole steps. Where
        that does not do, by those."""
        for _ in range(LOAD_STEPS):
            if self._are_live(names):
                return
            self.host.step(0)
            sync_job.start_due_syncs()
        self.until(lambda: self._are_live(names))

    def _are_live(self, names: Sequence[str]) -> bool:
        rows = Pipeline.objects.filter(source_table__name__in=names).order_by("id")
        # of a table that was taken in again the latest is the last
        states = dict(rows.values_list("source_table__name", "state"))
        return all(states.get(name) == "LIVE" for name in names)

    def pipeline(self, name: str) -> Pipeline:
        pipelines = Pipeline.objects.select_related("lake_table__database")
        return pipelines.filter(source_table__name=name).latest("id")

    def lake(self, name: str) -> Table:
        table = self.pipeline(name).lake_table
        assert table is not None
        table.refresh_from_db()
        return table

    def jobs(self, kind: str) -> list[Job]:
        return list(Job.objects.filter(kind=kind).order_by("created_at"))

    def fail_with(self, kind: str, *faults: Fault) -> None:
        self.launcher.faults[kind].extend(faults)

    def story(self) -> list[tuple[str, str, str]]:
        return [(j.kind, j.state, j.reason) for j in Job.objects.order_by("created_at")]
