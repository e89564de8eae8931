"""A follower as a process of its own (`tests.forked_follower`) with its host's end of the
pipe, before a real PostgreSQL, with what it made in the lake."""

from __future__ import annotations

import os
import queue
import signal
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from core.processes import talking
from ingest.contract.following import FollowerState, FollowSpec, FollowTable
from ingest.contract.job import ErrorFact, SecretAnswer
from ingest.contract.members import value_of
from ingest.contract.segments import OP, OPS, UNCHANGED, XID, Segment
from ingest.contract.source_positions import PostgresLog
from ingest.contract.table import ColumnSpec, TableSpec
from ingest.followers_host.children import (
    FollowerChild,
    FollowerCommand,
    News,
    start_follower,
)
from ingest.followers_host.followed import state_of
from ingest.lake.chain import (
    ChainIndex,
    newest_number,
    read_beginning,
    read_segment,
    stream_folder,
)
from ingest.lake.port import Place
from ingest.lake.segment_files import read_table
from ingest.sources.port import SourceAccess
from ingest.sources.row_batches import columns_in
from tests.forked_follower import fork_follower
from tests.source_access import postgresql_at
from tests.waiting import LIMIT_SECONDS, wait_for

STREAM = "pg1"
Link = psycopg.Connection[tuple[Any, ...]]


def table(
    number: int,
    name: str = "t",
    *,
    columns: dict[str, str] | None = None,
    key: tuple[str, ...] = ("id",),
    **more: Any,
) -> TableSpec:
    """columns: name → type, the same at the source and in the lake."""
    specs = tuple(
        ColumnSpec(column, column, *types.split(" as "))
        for column, types in (
            columns or {"id": "integer as int", "v": "text as string"}
        ).items()
    )
    place = Path("/nowhere") / f"table{number}"
    return TableSpec(
        number, "public", name, "db", name, str(place), "", specs, key, **more
    )


# A row of it makes a segment, in which everything before it is.
MARK = FollowTable(table(99, "mark", columns={"n": "integer as int"}, key=("n",)))


@dataclass(frozen=True)
class Change:
    """A row of a segment. xid: of its transaction."""

    segment: int
    op: str
    xid: int
    values: dict[str, Any]
    unchanged: bytes | None = None


@dataclass
class Running:
    """One start of the process, answered as its host answers."""

    child: FollowerChild
    news: queue.SimpleQueue[News]
    password: str
    states: list[FollowerState] = field(default_factory=list)
    failure: tuple[str, ErrorFact] | None = None
    code: int | None = None
    mark: FollowTable = MARK

    def look(self) -> None:
        while not self.news.empty():
            news = self.news.get()
            data = dict(news.data)
            match news.kind:
                case "secret_request":
                    answer = SecretAnswer(str(data["ref"]), self.password)
                    self.child.give_secret(answer)
                case "state":
                    # `state` would look again, and take up later ones before this one
                    self.states.append(state_of(data, self.last))
                case "failed":
                    self.failure = (
                        str(data["outcome"]),
                        value_of(ErrorFact, data["error"]),
                    )
                case "ended":
                    self.code = int(data["code"])

    @property
    def state(self) -> FollowerState:
        self.look()
        assert self.failure is None, self.failure
        assert self.code is None, "it ended"
        return self.last

    @property
    def last(self) -> FollowerState:
        """As it was told; it may have ended since."""
        return self.states[-1] if self.states else FollowerState("starting")

    def until(
        self, check: Callable[[FollowerState], object], what: str
    ) -> FollowerState:
        def is_so() -> FollowerState | None:
            state = self.state
            return state if check(state) else None

        return wait_for(is_so, lambda: f"{what}: {self.states[-1:]}")

    def until_failed(self) -> tuple[str, ErrorFact]:
        def is_so() -> bool:
            self.look()
            return self.code is not None

        wait_for(is_so, "its end")
        self.look()
        assert self.failure is not None
        return self.failure

    def want(self, *tables: FollowTable) -> None:
        self.child.send_tables((*tables, self.mark))

    def signal(self, sign: signal.Signals) -> None:
        if self.child.process._process.poll() is None:
            os.kill(self.child.process.pid, sign)

    def kill(self) -> None:
        """It is gone when this returns."""
        self.child.process.kill()
        wait_for(lambda: self.look() or self.code is not None, "its end")

    def problem(self, table_id: int) -> str:
        return next(
            (t.problem for t in self.state.tables if t.table_id == table_id), ""
        )


@dataclass
class World:
    """A database, a lake, and the followers that ran."""

    dsn: str
    link: Link
    home: Path
    spec: FollowSpec
    runs: list[Running] = field(default_factory=list)
    mark: FollowTable = MARK

    @property
    def folder(self) -> Place:
        return stream_folder(self.spec.lake, STREAM)

    def start(self, *tables: FollowTable, dsn: str = "", **spec: Any) -> Running:
        """dsn: of another login or way to the same database."""
        access = self.access(dsn)
        command = FollowerCommand(
            program=(),
            environment={},
            logs=self.home / "logs",
            run=self.home,
        )
        news: queue.SimpleQueue[News] = queue.SimpleQueue()
        number = len(self.runs) + 1
        wanted = replace(
            self.spec,
            source=access.spec,
            writer=f"writer {number}",
            tables=(*tables, self.mark),
            **spec,
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(talking, "spawn", fork_follower)
            child = start_follower(command, wanted, start=number, news=news)
        run = Running(child, news, access.password, mark=self.mark)
        self.runs.append(run)
        return run

    def access(self, dsn: str = "") -> SourceAccess:
        return postgresql_at(dsn or self.dsn)

    def following(self, *tables: FollowTable, **more: Any) -> Running:
        run = self.start(*tables, **more)
        run.until(lambda s: s.observed == "following", "it follows")
        return run

    def durable(self, run: Running) -> None:
        """Wait until all that was committed by now is."""
        row = self.link.execute(
            "INSERT INTO mark VALUES (1) RETURNING pg_current_wal_insert_lsn() - '0/0'"
        ).fetchone()
        assert row is not None
        here = int(row[0])
        run.until(lambda s: at(s) > here, f"{here} to be durable")

    def segments(self) -> list[Segment]:
        index = ChainIndex(self.folder, STREAM)
        found: list[Segment] = []
        while page := index.refresh():
            found += page
        return found

    def controls(self) -> list[tuple[str, int]]:
        """Of tables but `MARK`."""
        said = [(c.kind, c.table_id) for s in self.segments() for c in s.controls]
        return [one for one in said if one[1] != MARK.table.table_id]

    def reasons(self) -> list[str]:
        """Why tables were deferred."""
        return [c.reason for s in self.segments() for c in s.controls if c.reason]

    def changes(self, table_id: int = 1) -> list[Change]:
        return [
            change
            for segment in self.segments()
            for part in segment.parts_of(table_id)
            for change in _changes(self.folder, segment, part)
        ]

    def confirmed(self) -> int:
        row = self.link.execute(
            "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots"
            " WHERE slot_name = %s",
            [self.spec.slot],
        ).fetchone()
        assert row is not None
        return int(row[0])

    def durable_end(self) -> int:
        """Of the last segment, whoever made it."""
        last = self.newest()
        return PostgresLog.decode(last.end).lsn if last else 0

    def newest(self) -> Segment | None:
        first = read_beginning(self.folder).number
        return read_segment(self.folder, newest_number(self.folder, start=first))

    def sample(self) -> None:
        """The source never forgets what is not durable here."""
        told = self.confirmed()
        assert told <= self.durable_end()

    def close(self) -> None:
        for run in self.runs:
            run.signal(signal.SIGCONT)
            run.child.process.kill()
        for run in self.runs:
            run.child.process.end(LIMIT_SECONDS)


def at(state: FollowerState) -> int:
    return PostgresLog.decode(state.position).lsn if state.position else 0


def _changes(folder: Place, segment: Segment, part: Any) -> Iterator[Change]:
    found = read_table(folder, segment, part)
    names = {column.alias: column.source_name for column in columns_in(found.schema)}
    for row in found.to_pylist():
        values = {name: row[alias] for alias, name in names.items()}
        yield Change(segment.number, OPS[row[OP]], row[XID], values, row[UNCHANGED])


@contextmanager
def world_at(dsn: str, home: Path) -> Iterator[World]:
    access = postgresql_at(dsn)
    mark = uuid.uuid4().hex[:8]
    spec = FollowSpec(
        access.spec,
        STREAM,
        str(home / "lake"),
        f"sluice_{mark}",
        f"sluice_{mark}",
        above=0,
        writer="",
    )
    with psycopg.connect(dsn, autocommit=True) as link:
        link.execute("CREATE TABLE mark (n int)")
        link.execute("ALTER TABLE mark REPLICA IDENTITY FULL")
        world = World(dsn, link, home, spec)
        try:
            yield world
        finally:
            world.close()
