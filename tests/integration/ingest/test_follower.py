"""The follower as a process before a real PostgreSQL: what was committed there arrives in
segments, each transaction once, whatever happens to it."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import psutil
import psycopg
import pytest

from ingest.contract.following import FollowTable
from ingest.contract.source_positions import PostgresLog
from tests.integration.ingest.following import World, table
from tests.waiting import LIMIT_SECONDS, wait_for

T = "CREATE TABLE t (id int PRIMARY KEY, v text)"
FIRST = FollowTable(table(1), load="first")
MEMORY = 256 << 20
ROWS = 120_000


def test_changes_of_every_kind_arrive(followed: World) -> None:
    link = followed.link
    link.execute(T)
    run = followed.following(FIRST)
    link.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    link.execute("UPDATE t SET v = 'c' WHERE id = 1")
    link.execute("UPDATE t SET id = 3 WHERE id = 2")
    link.execute("DELETE FROM t WHERE id = 1")
    link.execute("TRUNCATE t")
    with link.transaction(force_rollback=True):
        link.execute("INSERT INTO t VALUES (9, 'never')")
    followed.durable(run)
    changes = followed.changes()
    assert [(one.op, *one.values.values()) for one in changes] == [
        ("insert", 1, "a"),
        ("insert", 2, "b"),
        ("update", 1, "c"),
        ("delete", 2, None),
        ("moved", 3, "b"),
        ("delete", 1, None),
        ("truncate", None, None),
    ]
    assert followed.controls() == [("added", 1), ("cut", 1)]
    state = run.until(lambda s: s.rows == 8 and s.log.kept, "its state")
    about, _ = state.tables
    assert (about.state, about.problem, about.new_columns) == ("cut", "", ())
    followed.sample()


@dataclass
class Writers:
    """Sessions that write transactions of several rows until they are to end; what each
    committed, by its xid."""

    dsn: str
    seed: int
    committed: dict[int, list[tuple[str, int]]] = field(default_factory=dict)
    rows: Iterator[int] = field(default_factory=lambda: iter(range(1, 10_000_000)))
    ended: threading.Event = field(default_factory=threading.Event)

    def write(self, number: int) -> None:
        rng = random.Random(self.seed + number)
        with psycopg.connect(self.dsn, autocommit=True) as link:
            while not self.ended.is_set():
                self.transaction(link, rng)

    def transaction(self, link: psycopg.Connection, rng: random.Random) -> None:
        done: list[tuple[str, int]] = []
        ids = [next(self.rows) for _ in range(rng.choice((1, 1, 3, 40)))]
        with link.transaction(force_rollback=rng.random() < 0.1) as block:
            row = link.execute("SELECT txid_current() % 4294967296").fetchone()
            for one in ids:
                link.execute("INSERT INTO t VALUES (%s, 'x')", [one])
                done.append(("insert", one))
            with link.transaction(force_rollback=True):
                link.execute("DELETE FROM t WHERE id = %s", [ids[0]])
            link.execute("UPDATE t SET v = 'y' WHERE id = %s", [ids[-1]])
            done.append(("update", ids[-1]))
        assert row is not None
        if not block.force_rollback:
            self.committed[int(row[0])] = done


@contextmanager
def writing(world: World, *, seed: int = 0) -> Iterator[Writers]:
    writers = Writers(world.dsn, seed)
    threads = [threading.Thread(target=writers.write, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield writers
    finally:
        writers.ended.set()
        for thread in threads:
            thread.join(LIMIT_SECONDS)


def assert_exact(world: World, writers: Writers) -> None:
    """Every transaction once, whole, its rows in their order, in one segment."""
    found: dict[int, list[tuple[str, int]]] = {}
    where: dict[int, set[int]] = {}
    for change in world.changes():
        found.setdefault(change.xid, []).append((change.op, change.values["id"]))
        where.setdefault(change.xid, set()).add(change.segment)
    assert found == writers.committed
    assert {len(segments) for segments in where.values()} <= {1}


@pytest.mark.long
def test_it_is_killed_again_and_again(followed: World) -> None:
    """FLINK-39265: a transaction and its first row have one place, and behind a restart
    the row was passed over."""
    followed.link.execute(T)
    rng = random.Random(7)
    followed.following(FIRST).kill()
    with writing(followed) as writers:
        for _ in range(6):
            newest = followed.newest()
            assert newest is not None
            # the one of the take-over, and some with rows; in the middle of another
            until = newest.number + rng.randrange(1, 5)
            run = followed.start(FIRST)
            run.until(lambda s, n=until: s.number >= n, "segments")  # type: ignore[misc]
            followed.sample()
            run.kill()
            followed.sample()
        run = followed.following(FIRST)
    followed.durable(run)
    assert_exact(followed, writers)
    assert followed.controls() == [("added", 1), ("cut", 1)]


@pytest.mark.long
def test_two_that_are_alive_do_no_harm(followed: World) -> None:
    """As when a host lost its lease while its process did not run."""
    followed.link.execute(T)
    old = followed.following(FIRST)
    old.until(lambda s: s.tables[0].state == "cut", "its cut")
    with writing(followed) as writers:
        old.until(lambda s: s.rows > 0, "rows")
        old.signal(signal.SIGSTOP)
        new = followed.following(FIRST)
        new.until(lambda s: s.rows > 0, "rows of the other")
        followed.sample()
        old.signal(signal.SIGCONT)
        outcome, error = old.until_failed()
        # what it meets first: the slot or the number is the other's, or the other
        # removed what it had half written
        ends = {"log_ended", "superseded", "source_unreachable", "storage_failed"}
        assert outcome == "transient", error
        assert error.code in ends, error
        before = new.state.number
        new.until(lambda s: s.number > before + 1, "it goes on")
        followed.sample()
    followed.durable(new)
    assert_exact(followed, writers)


def test_transactions_that_were_open_arrive_once(followed: World) -> None:
    """debezium/dbz#76, #51: lost with a restart between their rows and their commit;
    supabase/etl#905: what ends later was begun before."""
    followed.link.execute(T)
    run = followed.following(FIRST)
    with psycopg.connect(followed.dsn) as open_one:
        open_one.execute("INSERT INTO t VALUES (1, 'open')")
        followed.link.execute("INSERT INTO t VALUES (2, 'other')")
        followed.durable(run)
        run.kill()
        run = followed.following(FIRST)
        followed.durable(run)
        open_one.execute("INSERT INTO t VALUES (3, 'open')")
        open_one.commit()
    followed.durable(run)
    assert [one.values["id"] for one in followed.changes()] == [2, 1, 3]


def test_a_transaction_of_many_rows_comes_in_parts(followed: World) -> None:
    """debezium/dbz#1554: rows that share one place in the log. Killed in the middle of
    it, it comes again from its first row, and once."""
    link = followed.link
    link.execute(T)
    run = followed.following(FIRST)
    many = "INSERT INTO t SELECT g, repeat('x', 500) FROM generate_series({}, {}) g"
    link.execute(many.format(1, ROWS))
    folder = followed.home / "lake" / "_sluice" / "log" / "pg1"
    wait_for(lambda: [*folder.glob("*.part")], "parts")
    run.kill()
    run = followed.following(FIRST)
    process = psutil.Process(run.child.process.pid)
    most = 0

    def is_durable() -> bool:
        nonlocal most
        most = max(most, process.memory_info().rss)
        return run.state.rows >= ROWS

    wait_for(is_durable, "the transaction")
    assert most < MEMORY
    (segment,) = [one for one in followed.segments() if one.parts_of(1)]
    assert segment.files
    ids = [one.values["id"] for one in followed.changes()]
    assert ids == list(range(1, ROWS + 1))
    # what the one before had begun went with it
    assert {path.name for path in folder.glob("*.part")} == segment.files


def test_the_slot_moves_while_only_others_write(followed: World) -> None:
    """risingwave#16697, go-pq-cdc#136: else the source keeps all of its log."""
    link = followed.link
    link.execute(T)
    link.execute("CREATE TABLE other (v text)")
    followed.following(FIRST)
    before = followed.confirmed()
    link.execute(
        "INSERT INTO other SELECT repeat('x', 1000) FROM generate_series(1, 30000)"
    )
    wait_for(lambda: followed.confirmed() > before + (16 << 20), "the slot to move")
    followed.sample()


def test_tables_come_and_go_while_it_reads(followed: World) -> None:
    link = followed.link
    link.execute(T)
    link.execute("CREATE TABLE u (id int PRIMARY KEY, v text)")
    run = followed.following(FIRST)
    link.execute("INSERT INTO u VALUES (1, 'not yet')")
    second = FollowTable(table(2, "u"), load="one")
    run.want(FIRST, second)
    run.until(lambda s: [t.state for t in s.tables[:2]] == ["cut", "cut"], "its cut")
    link.execute("INSERT INTO u VALUES (2, 'now')")
    link.execute("INSERT INTO t VALUES (2, 'now')")
    here = PostgresLog.decode(run.state.position)
    run.want(FIRST, replace(second, finished_at=here.encode()))
    run.until(lambda s: s.tables[1].state == "finished", "its end")
    run.want(replace(FIRST, deferred="it holds too much"), second)
    run.until(lambda s: s.tables[0].state == "deferred", "its deferral")
    # a new load brings it back
    run.want(replace(FIRST, load="next"), second)
    run.until(lambda s: s.tables[0].state == "cut", "its next cut")
    run.want(FollowTable(table(1), load="next"))
    wait_for(lambda: ("removed", 2) in followed.controls(), "its removal")
    wait_for(lambda: published(followed) == ["mark", "t"], "the publication")
    link.execute("INSERT INTO u VALUES (3, 'no more')")
    followed.durable(run)
    assert [one.values["v"] for one in followed.changes(2)] == ["now"]
    assert followed.controls() == [
        ("added", 1), ("cut", 1), ("added", 2), ("cut", 2), ("finished", 2),
        ("deferred", 1), ("cut", 1), ("removed", 2),
    ]  # fmt: skip
    (cut,) = [s for s in followed.segments() for c in s.controls if c.load == "next"]
    assert cut.number > 0


def published(world: World) -> list[str]:
    rows = world.link.execute(
        "SELECT tablename FROM pg_publication_tables WHERE pubname = %s ORDER BY 1",
        [world.spec.publication],
    ).fetchall()
    return [row[0] for row in rows]


def test_values_that_were_not_sent_are_marked(followed: World) -> None:
    """olake#984: they are not NULL. With full images they are there."""
    link = followed.link
    for name in ("t", "u"):
        link.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, v text, w int)")
        link.execute(f"ALTER TABLE {name} ALTER v SET STORAGE EXTERNAL")
    link.execute("ALTER TABLE u REPLICA IDENTITY FULL")
    columns = {"w": "integer as int", "id": "integer as int", "v": "text as string"}
    run = followed.following(
        FollowTable(table(1, columns=columns), load="a"),
        FollowTable(table(2, "u", columns=columns), load="a"),
    )
    for name in ("t", "u"):
        link.execute(f"INSERT INTO {name} VALUES (1, repeat('x', 9000), 1)")
        link.execute(f"UPDATE {name} SET w = 2")
        link.execute(f"UPDATE {name} SET id = 2")
    followed.durable(run)
    assert [one.unchanged for one in followed.changes(1)] == [None, b"\4", None, b"\4"]
    assert [one.values["v"] for one in followed.changes(2)] == ["x" * 9000] * 4
    assert [one.unchanged for one in followed.changes(2)] == [None] * 4
