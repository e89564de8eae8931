"""Fault runs of the half of log capture that reads: a follower as its host starts it,
before a real source, without Spark or a product. So a run takes seconds.

Tables are followed from their beginning on, so the chain has every change of them. In the
end it is applied from the first one on: each insert must find its key free, each update
and delete must find its row, and what comes out has to equal the source.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pymysql

from config.embedded.postgres import EmbeddedPostgres
from core.processes.identity import read_identity
from ingest.contract.following import FollowSpec, FollowTable
from ingest.sources.port import SourceAccess
from tests.fault.log_sources import (
    LoggedMariaDb,
    LoggedPostgres,
    LoggedSource,
    comparable,
    durable_end,
    place_of,
)
from tests.fault.log_writers import KEYS
from tests.integration.ingest.following import (
    MARK,
    STREAM,
    Change,
    Running,
    World,
    table,
)
from tests.integration.ingest.mariadb_following import MariaWorld
from tests.processes import family, kill
from tests.small_disk import SmallDisk, may_mount, small_disk
from tests.source_access import mariadb_at, postgresql_at
from tests.waiting import wait_for

VICTIMS = (
    "follower",
    "stopped",
    "two",
    "sessions",
    "source",
    "network_cut",
    "network_silent",
    "full_disk",
)
COLUMNS = {
    "postgresql": {
        "plain": {
            "id": "integer as int",
            "v": "text as string",
            "n": "numeric(12,2) as decimal(12,2)",
            "at": "timestamp with time zone as timestamp",
        },
        "texts": {
            "code": "text as string",
            "v": "text as string",
            "flag": "boolean as boolean",
        },
        "pairs": {"a": "integer as int", "b": "uuid as string", "v": "text as string"},
        "once": {"id": "bigint as bigint", "v": "text as string"},
    },
    "mariadb": {
        "plain": {
            "id": "int(11) as int",
            "v": "text as string",
            "n": "decimal(12,2) as decimal(12,2)",
            "at": "datetime(6) as timestamp_ntz",
        },
        "texts": {
            "code": "varchar(40) as string",
            "v": "text as string",
            "flag": "int(11) as int",
        },
        "pairs": {
            "a": "int(11) as int",
            "b": "varchar(40) as string",
            "v": "text as string",
        },
        "once": {"id": "bigint(20) as bigint", "v": "text as string"},
    },
}
# Of so many seeds one has large transactions; so many strikes meet a follower that reads,
# and no one that begins.
_LARGE_EACH, _FOLLOWS = 6, 0.7


@dataclass
class Read:
    """One kind of source with its server, for many runs.

    begin  in a home and a lake a new database with empty tables, and a world whose
           follower reaches it through the source's proxy
    lakes  where those are; disk: of them, where it is one of its own
    """

    kind: str
    begin: Callable[
        [Path, Path], contextlib.AbstractContextManager[tuple[LoggedSource, World]]
    ]
    lakes: Path
    disk: SmallDisk | None

    @property
    def victims(self) -> tuple[str, ...]:
        return VICTIMS if self.disk else VICTIMS[:-1]


@contextlib.contextmanager
def servers(home: Path) -> Iterator[list[Read]]:
    with contextlib.ExitStack() as stack:
        lakes, disk = home / "lakes", None
        if may_mount():
            disk = stack.enter_context(small_disk(lakes, "1g"))
        postgres = EmbeddedPostgres(home, "read", durable=False)
        stack.callback(postgres.destroy)
        postgres.start()
        maria = LoggedMariaDb(lambda: lakes)
        stack.callback(maria.close)
        yield [
            Read("postgresql", partial(_postgresql, postgres), lakes, disk),
            Read("mariadb", partial(_mariadb, maria), lakes, disk),
        ]


@dataclass
class ProxiedWorld(World):
    port: int = 0

    def access(self, dsn: str = "") -> SourceAccess:
        found = super().access(dsn)
        return replace(found, spec=replace(found.spec, port=self.port))


@dataclass
class ProxiedMariaWorld(MariaWorld):
    port: int = 0

    def access(self, dsn: str = "") -> SourceAccess:
        found = super().access(dsn)
        return replace(found, spec=replace(found.spec, port=self.port))


@contextlib.contextmanager
def _postgresql(
    server: EmbeddedPostgres, home: Path, lake: Path
) -> Iterator[tuple[LoggedSource, World]]:
    def connect(database: str) -> psycopg.Connection[Any]:
        return psycopg.connect(server.address.url(database), autocommit=True)

    def crash() -> None:
        found = read_identity(server.pid_file)
        kill(family(found.pid if found else None))
        server.stop()
        server.start()

    at, mark = server.address, uuid.uuid4().hex[:8]
    source = LoggedPostgres(connect, (at.host, at.port), crash, name=f"read_{mark}")
    port = source.begin()["port"]
    dsn = at.url(source.name)
    with contextlib.closing(source), connect(source.name) as link:
        link.execute("CREATE TABLE mark (n int)")
        link.execute("ALTER TABLE mark REPLICA IDENTITY FULL")
        spec = _spec(postgresql_at(dsn), lake, mark)
        world = ProxiedWorld(dsn, link, home, spec, port=port)
        try:
            yield source, world
        finally:
            world.close()
            _drop_slots(source)


def _drop_slots(source: LoggedPostgres) -> None:
    """A server has few of them."""
    source.end_sessions()
    with source.connect("postgres") as link:
        wait_for(lambda: _dropped(link, source.name), "its slot to be dropped")


def _dropped(link: psycopg.Connection[Any], database: str) -> bool:
    try:
        link.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
            " WHERE database = %s",
            [database],
        )
    except psycopg.errors.ObjectInUse:
        return False
    return True


@contextlib.contextmanager
def _mariadb(
    source: LoggedMariaDb, home: Path, lake: Path
) -> Iterator[tuple[LoggedSource, World]]:
    mark = uuid.uuid4().hex[:8]
    source.stream = lambda: chain_of(lake)
    port = source.begin()["port"]
    source.server.run("CREATE TABLE mark (n int PRIMARY KEY)", database=source.name)
    spec = _spec(mariadb_at(source.server), lake, mark)
    link: Any = None
    world = ProxiedMariaWorld(
        source.name, link, home, spec, server=source.server, port=port
    )
    world.mark = world.of(MARK)
    try:
        yield source, world
    finally:
        world.close()
        source.proxy.close()


def _spec(access: SourceAccess, lake: Path, mark: str) -> FollowSpec:
    name = f"sluice_{mark}"
    return FollowSpec(access.spec, STREAM, str(lake), name, name, above=0, writer="")


def chain_of(lake: Path) -> Path:
    return lake / "_sluice" / "log" / STREAM


# --------------------------------------------------------------------------- a run


@dataclass
class Reading:
    """The follower of a run, which is started again whenever it ended, as its host does
    it. ends: what it ended with."""

    world: World
    tables: list[FollowTable]
    disk: SmallDisk | None
    ends: dict[str, int] = field(default_factory=dict)
    _run: Running | None = None

    @property
    def run(self) -> Running:
        run = self._run
        if run is not None:
            run.look()
            if run.code is not None:
                self._note(run)
                run = None
        if run is None:
            run = self._run = self.world.start(*self.tables)
        return run

    def _note(self, run: Running) -> None:
        outcome, error = run.failure or ("killed", None)
        name = error.code if error else outcome
        assert outcome != "terminal", error
        self.ends[name] = self.ends.get(name, 0) + 1

    def again(self) -> Running:
        """A second one, while the first is there."""
        before, self._run = self._run, None
        assert before is not None
        self.run.look()
        return before

    def work(self, seconds: float) -> None:
        """Goes on for so long."""
        for _ in range(max(1, round(seconds / 0.1))):
            self.run.look()
            time.sleep(0.1)

    def is_following(self) -> bool:
        states = self.run.states
        return bool(states) and states[-1].observed == "following"


def run(read: Read, home: Path, victim: str, seed: int) -> dict[str, Any]:
    """AssertionError with what is wrong, else its facts."""
    chance = random.Random(seed)
    lake = read.lakes / f"{read.kind}{seed}"
    with read.begin(home, lake) as (source, world):
        specs = [
            table(number, name, columns=COLUMNS[read.kind][name], key=key)
            for number, (name, key) in enumerate(KEYS.items(), start=1)
        ]
        wanted = [FollowTable(one, load="first") for one in specs]
        reading = Reading(world, wanted, read.disk)
        wait_for(lambda: _are_cut(reading), "the tables to be followed")
        watch = Watch(source, world)
        source.fill()
        writer = source.writer(seed, has_large=seed % _LARGE_EACH == 0)
        writer.start()
        try:
            for _ in range(3):
                reading.work(chance.uniform(0.2, 1.5))
                if chance.random() < _FOLLOWS:
                    wait_for(reading.is_following, "it follows")
                STRIKES[victim](reading, source, chance)
                watch.look()
        finally:
            writer.stop()
        wait_for(reading.is_following, "it follows")
        _wait_durable(reading, source)
        watch.look()
        assert not writer.wrong, writer.wrong
        found = {one.source_table: _applied(world, one.table_id, one) for one in specs}
        for name, rows in found.items():
            _assert_equal(source, name, rows)
        shutil.rmtree(lake)
        return {"read": read.kind, "victim": victim, "seed": seed} | {
            "done": writer.done,
            "ends": reading.ends,
            "looks": watch.looks,
        }


def _are_cut(reading: Reading) -> bool:
    states = reading.run.states
    return bool(states) and [one.state for one in states[-1].tables[:4]] == ["cut"] * 4


def _wait_durable(reading: Reading, source: LoggedSource) -> None:
    """Until the chain has all that was written; whoever dies meanwhile begins again."""
    mark = time.time_ns() % 1_000_000_000
    wait_for(lambda: _wrote(source, mark), "a mark to be written")

    def is_there() -> bool:
        reading.run.look()
        rows = reading.world.changes(MARK.table.table_id)
        return any(one.values["n"] == mark for one in rows)

    wait_for(is_there, "the mark to be durable", pause=0.5)


def _wrote(source: LoggedSource, mark: int) -> bool:
    with contextlib.suppress(psycopg.OperationalError, pymysql.OperationalError):
        source.execute(f"INSERT INTO mark VALUES ({mark})")
        return True
    return False


@dataclass
class Watch:
    """Positions rise, and no source forgets what is not durable."""

    source: LoggedSource
    world: World
    looks: int = 0
    _end: tuple[int, int] = (0, 0)

    def look(self) -> None:
        folder = chain_of(Path(self.world.spec.lake))
        try:
            forgotten = self.source.forgotten()
        except psycopg.OperationalError:
            return
        if (end := durable_end(folder)) is None:
            return
        place = place_of(end)
        assert forgotten is None or forgotten <= place[1], (forgotten, end)
        assert place >= self._end, (self._end, end)
        self._end = place
        self.looks += 1


# --------------------------------------------------------------- what the chain has


def _applied(world: World, table_id: int, spec: Any) -> list[dict[str, Any]]:
    """Rows of a table by its changes from the first on."""
    key = tuple(KEYS[spec.source_table])
    names = [column.name for column in spec.columns]
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    moved: dict[str, Any] = {}
    for change in world.changes(table_id):
        one = tuple(change.values[name] for name in key)
        if change.op == "truncate":
            rows.clear()
        elif change.op == "delete":
            assert one in rows, f"{spec.source_table} {one} was deleted twice"
            moved = rows.pop(one)
        elif change.op == "update":
            assert one in rows, f"{spec.source_table} {one} is not there to be updated"
            rows[one] = _completed(change, rows[one], names)
        else:
            assert one not in rows, f"{spec.source_table} {one} came twice"
            before = moved if change.op == "moved" else {}
            rows[one] = _completed(change, before, names)
    return list(rows.values())


def _completed(
    change: Change, before: dict[str, Any], names: list[str]
) -> dict[str, Any]:
    mask = change.unchanged or b""
    return {
        name: before[name]
        if at // 8 < len(mask) and mask[at // 8] >> (at % 8) & 1
        else change.values[name]
        for at, name in enumerate(names)
    }


def _assert_equal(source: LoggedSource, name: str, rows: list[dict[str, Any]]) -> None:
    columns, wanted = source.rows(name)
    known = [c for c in columns if not c.startswith("more")]
    found = {comparable([_text(row[c]) for c in known]) for row in rows}
    there = {comparable(row[: len(known)]) for row in wanted}
    unlike = sorted(str(one)[:200] for one in found ^ there)
    assert not unlike, f"{name} differs: {unlike[:6]}"


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return str(value.replace(tzinfo=None))
    return None if value is None else str(value)


# -------------------------------------------------------------------------- strikes


def _kill(reading: Reading, _: LoggedSource, __: random.Random) -> None:
    reading.run.child.process.kill()


def _stop(reading: Reading, _: LoggedSource, chance: random.Random) -> None:
    run = reading.run
    run.signal(signal.SIGSTOP)
    time.sleep(chance.uniform(0.5, 3.0))
    run.signal(signal.SIGCONT)


def _two(reading: Reading, _: LoggedSource, chance: random.Random) -> None:
    """As when a host lost its lease while its process did not run."""
    reading.run.signal(signal.SIGSTOP)
    old = reading.again()
    reading.work(chance.uniform(0.5, 4.0))
    old.signal(signal.SIGCONT)
    reading.work(1.0)
    old.child.process.kill()


def _sessions(reading: Reading, source: LoggedSource, _: random.Random) -> None:
    source.end_sessions()


def _crash(reading: Reading, source: LoggedSource, _: random.Random) -> None:
    source.crash()


def _cut(reading: Reading, source: LoggedSource, _: random.Random) -> None:
    source.proxy.cut()


def _silence(reading: Reading, source: LoggedSource, chance: random.Random) -> None:
    source.proxy.freeze()
    reading.work(chance.choice((1.0, 1.0, 1.0, 25.0)))
    if chance.random() < 0.5:
        source.proxy.cut()
    source.proxy.thaw()


def _fill(reading: Reading, _: LoggedSource, chance: random.Random) -> None:
    assert reading.disk is not None
    with reading.disk.full(but=chance.choice((0, 4 << 10, 64 << 10))):
        reading.work(chance.uniform(1.0, 4.0))


STRIKES: dict[str, Callable[[Reading, LoggedSource, random.Random], None]] = {
    "follower": _kill,
    "stopped": _stop,
    "two": _two,
    "sessions": _sessions,
    "source": _crash,
    "network_cut": _cut,
    "network_silent": _silence,
    "full_disk": _fill,
}
