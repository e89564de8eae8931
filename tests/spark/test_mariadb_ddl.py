"""Tables of MariaDB that are altered while a job reads them, and what it sees of us.

The oracle is always the same: the lake equals the source, or the job did not succeed.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from catalog.sources.registry import footprint_of
from ingest.driver.capture import jdbc, source_tables
from ingest.driver.capture import reading as patience
from ingest.driver.capture import timestamp as capture_timestamp
from ingest.sources.mariadb import reader
from tests.mariadb import MariaDbServer
from tests.spark.lake_bench import assert_done
from tests.spark.mariadb_bench import MariadbBench
from tests.spark.test_repair import mend
from tests.spark.test_source_fingerprint import sync
from tests.spark.test_source_footprint import ask_slowly
from tests.waiting import LIMIT_SECONDS, wait_for

MODULES = (source_tables, capture_timestamp)


@pytest.fixture
def bench(
    spark: Any,
    mariadb_server: MariaDbServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[MariadbBench]:
    monkeypatch.setattr(patience, "PAUSES", (0.1, 0.1))
    made = MariadbBench(spark, mariadb_server, tmp_path)
    made.sql(
        "CREATE TABLE o (id int PRIMARY KEY, v int,"
        " at timestamp(6) DEFAULT current_timestamp(6))"
    )
    made.sql("INSERT INTO o SELECT seq, seq, now() - INTERVAL 1 DAY FROM seq_1_to_200")
    yield made
    made.close()


def altered_after_the_check(
    bench: MariadbBench, monkeypatch: pytest.MonkeyPatch, *statements: str
) -> None:
    """The next job finds the columns as planned, and then they change."""
    todo = list(statements)
    for module in MODULES:
        real = module.require_columns

        def check(*given: Any, real: Any = real) -> Any:
            found = real(*given)
            while todo:
                bench.sql(todo.pop(0))
            return found

        monkeypatch.setattr(module, "require_columns", check)


def test_a_type_that_changes_between_check_and_read_is_never_committed(
    bench: MariadbBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = bench.table("o", cursor="at", estimated_rows=200)
    low = assert_done(bench.load(table)).facts["bound"]
    before = bench.rows(table, "id", "v")
    wider = (
        "ALTER TABLE o MODIFY v bigint",
        "UPDATE o SET v = 3000000000, at = now(6) WHERE id = 7",
    )
    narrow = ("UPDATE o SET v = 7 WHERE id = 7", "ALTER TABLE o MODIFY v int")
    for job in (
        lambda: bench.sync(table, low),
        lambda: bench.load(table, kind="resync"),
        lambda: bench.verify(table),
    ):
        with monkeypatch.context() as patch:
            altered_after_the_check(bench, patch, *wider)
            report = job()
        assert report.error is not None
        assert (report.outcome, report.error.code) == (
            "invalid_request",
            "source_changed",
        )
        assert bench.rows(table, "id", "v") == before
        for statement in narrow:
            bench.sql(statement)


def test_a_truncated_table_is_read_anew(
    bench: MariadbBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two chunks: those before it are of rows that are gone."""
    real, calls = patience.read_statement, []  # type: ignore[var-annotated]

    def between(*given: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            bench.sql("TRUNCATE o")
            bench.sql("INSERT INTO o (id, v) VALUES (5, 50)")
        return real(*given, **named)

    bench.source = replace(bench.source, max_parallel_reads=1)
    table = bench.table("o", estimated_rows=200)
    bench.sql("ANALYZE TABLE o")
    monkeypatch.setattr(patience, "read_statement", between)
    assert_done(bench.load(table, chunk_rows=20))
    assert bench.rows(table, "id", "v") == [(5, 50)]


def test_a_value_that_does_not_fit_ends_the_read(spark: Any) -> None:
    from ingest.sources.select import SelectedColumn, Selection

    def cast(value: str, to: str) -> list[Any]:
        rows = spark.sql(f"SELECT {value} AS c0")
        chosen = Selection((SelectedColumn("c0", "v", to, ""),), ())
        return [row[0] for row in jdbc.cast_to_lake(rows, chosen).collect()]

    assert cast("cast(7 AS bigint)", "int") == [7]
    assert cast("cast(null AS bigint)", "int") == [None]
    for value, to in (
        ("3000000000L", "int"),
        ("1e39D", "decimal(38,0)"),
        ("12345.6BD", "decimal(5,2)"),
    ):
        with pytest.raises(Exception, match=r"sluice\.unfit"):
            cast(value, to)


FILL = "INSERT INTO o SELECT seq, 9, now() - INTERVAL 2 DAY FROM seq_1_to_20"
# statements → whether the table is still the one whose rows the lake has
MADE_ANEW = {
    "rebuilt": (("ALTER TABLE o FORCE",), True),
    "copied and renamed": (
        ("CREATE TABLE n LIKE o", "INSERT INTO n SELECT * FROM o",
         "RENAME TABLE o TO former, n TO o"), True),
    "created again": (("CREATE TABLE n LIKE o", "DROP TABLE o", "RENAME TABLE n TO o", FILL), False),
    "truncated, and empty below the position": (
        ("TRUNCATE o", "INSERT INTO o VALUES (500, 1, now())"), False),
}  # fmt: skip


# one of each kind: the others differ in what the server does, not in what we read
ALWAYS = {"rebuilt", "created again"}
HOW = [
    how if how in ALWAYS else pytest.param(how, marks=pytest.mark.long)
    for how in MADE_ANEW
]


@pytest.mark.parametrize("how", HOW)
def test_rows_tell_a_table_made_anew_from_a_rebuilt_one(
    bench: MariadbBench, how: str
) -> None:
    statements, is_same = MADE_ANEW[how]
    table = bench.table("o", cursor="at", estimated_rows=200)
    load = assert_done(bench.load(table)).facts
    before = bench.rows(table, "id", "v")
    # the time of creation counts seconds
    made = "SELECT now() > create_time FROM information_schema.tables WHERE table_name = 'o'"
    wait_for(lambda: bench.sql(made)[0][0], "the next second")
    for statement in statements:
        bench.sql(statement)
    report = sync(bench, table, load["bound"], load["source_fingerprint"])
    assert bench.rows(table, "id", "v") == before
    if is_same:
        assert any("rebuilt" in w for w in assert_done(report).warnings)
        return
    assert report.error is not None
    assert (report.outcome, report.error.code) == (
        "invalid_request",
        "source_recreated",
    )
    again = assert_done(bench.load(table, kind="resync")).facts
    assert_done(sync(bench, table, again["bound"], again["source_fingerprint"]))
    assert bench.rows(table, "id", "v") == sorted(bench.sql("SELECT id, v FROM o"))


@pytest.mark.long
def test_the_server_never_sees_more_than_is_promised(
    bench: MariadbBench,
    mariadb_server: MariaDbServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # the only transaction that is longer than its statements, long enough to be seen
    monkeypatch.setattr(reader, "_COPY_SECONDS", 2 * SECONDS_PER_LOOK)
    ask_slowly(monkeypatch, 2 * SECONDS_PER_LOOK)
    mariadb_server.create_user("least", "p", ["SELECT ON `shop`.*", "PROCESS ON *.*"])
    bench.source = replace(bench.source, username="least")
    bench.password = "p"
    table = bench.table("o", cursor="at", estimated_rows=200)
    promised = footprint_of("mariadb", bench.source.max_parallel_reads)
    low = kept = ""
    for job in ("snapshot", "sync", "resync", "verify", "restore"):
        if job == "sync":
            bench.sql("UPDATE o SET v = v + 1, at = now(6)")
        if job == "restore":
            kept = assert_done(mend(bench, table, "savepoint")).facts["savepoint"]
        with watched(mariadb_server) as seen:
            if job == "sync":
                assert_done(bench.sync(table, low))
            elif job == "verify":
                assert_done(bench.verify(table, chunk_rows=20))
            elif job == "restore":
                assert_done(mend(bench, table, "restore", kept))
            else:
                low = assert_done(bench.load(table, kind=job)).facts["bound"]
        assert 1 <= seen.connections <= promised.connections, job
        assert seen.looks >= 1, job
        looks_for_others = job in {"snapshot", "sync", "resync"}
        assert int(looks_for_others) <= seen.transactions <= promised.transactions, job
        assert seen.outlived < 4, job
        # a server counts a connection until its thread has ended
        wait_for(lambda: bench.sql(CONNECTIONS)[0][0] == 0, f"the end of {job}")


CONNECTIONS = "SELECT count(*) FROM information_schema.processlist WHERE user = 'least'"
# And for how long one has been open beyond the statement that runs in it.
TRANSACTIONS = """
SELECT count(*), coalesce(max(timestampdiff(SECOND, t.trx_started, now())
  - CASE p.command WHEN 'Sleep' THEN 0 ELSE p.time END), 0)
FROM information_schema.innodb_trx t
JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id
WHERE p.user = 'least'
"""
# Who reads innodb_trx more often keeps InnoDB from bringing it up to date.
SECONDS_PER_LOOK = 0.4


@dataclass
class Seen:
    """The largest of each figure, and how often transactions were looked at."""

    connections: int = 0
    transactions: int = 0
    outlived: int = 0
    looks: int = 0


@contextlib.contextmanager
def watched(server: MariaDbServer) -> Iterator[Seen]:
    begun, ended, seen = threading.Event(), threading.Event(), Seen()

    def watch() -> None:
        with contextlib.closing(server.connect()) as link, link.cursor() as cursor:
            begun.set()
            due = time.monotonic() + SECONDS_PER_LOOK
            while not ended.wait(0.005):
                cursor.execute(CONNECTIONS)
                seen.connections = max(seen.connections, int(cursor.fetchone()[0]))
                if time.monotonic() < due:
                    continue
                cursor.execute(TRANSACTIONS)
                number, outlived = (int(n) for n in cursor.fetchone())
                seen.transactions = max(seen.transactions, number)
                seen.outlived = max(seen.outlived, outlived)
                seen.looks += 1
                due = time.monotonic() + SECONDS_PER_LOOK

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert begun.wait(LIMIT_SECONDS)
    try:
        yield seen
    finally:
        ended.set()
        watcher.join()
