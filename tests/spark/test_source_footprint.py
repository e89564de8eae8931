"""What a source sees of a job, watched while the job runs: `docs/reading.md`."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from catalog.schema.limits import LIMITS
from catalog.sources.registry import footprint_of
from ingest.driver.table_services import savepoints
from tests.spark.lake_bench import LakeBench, assert_done
from tests.spark.test_repair import mend
from tests.waiting import LIMIT_SECONDS, wait_for

# Connections, open transactions, the age of the oldest in seconds, and holders of a
# snapshot that hold a lock on a table of the user.
SEEN = """
SELECT count(*), count(a.xact_start),
  coalesce(max(extract(epoch FROM clock_timestamp() - a.xact_start)), 0)::float,
  count(*) FILTER (WHERE a.query ~ 'pg_(locks|export_snapshot|stat_clear)'
    AND EXISTS (SELECT 1 FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
      WHERE l.pid = a.pid AND c.relnamespace = 'public'::regnamespace))
FROM pg_stat_activity a WHERE a.application_name LIKE 'sluice:%'
"""


@contextlib.contextmanager
def watched(dsn: str, most: list[float]) -> Iterator[None]:
    """Fills `most` with the largest of each figure of SEEN while inside."""
    begun, ended = threading.Event(), threading.Event()

    def watch() -> None:
        with psycopg.connect(dsn, autocommit=True) as link:
            begun.set()
            while not ended.wait(0.005):
                found = link.execute(SEEN).fetchone()
                assert found is not None
                most[:] = [max(a, float(b)) for a, b in zip(most, found, strict=True)]

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert begun.wait(LIMIT_SECONDS)
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def ask_slowly(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """What a restore asks its source is over before anybody has looked."""
    real = savepoints._count

    def count(*given: Any) -> int:
        time.sleep(seconds)
        return real(*given)

    monkeypatch.setattr(savepoints, "_count", count)


@pytest.mark.parametrize(
    "key", [("id",), pytest.param((), marks=pytest.mark.long, id="none")]
)
def test_a_source_never_sees_more_than_is_promised(
    lake_bench: LakeBench, key: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = lake_bench
    ask_slowly(monkeypatch, 0.2)
    kept = "PRIMARY KEY" if key else ""
    bench.sql(f"CREATE TABLE o (id int {kept}, at timestamptz DEFAULT now())")
    bench.sql("INSERT INTO o SELECT g FROM generate_series(1, 8000) g")
    bench.sql("ANALYZE o")
    table = bench.table("o", key, cursor="at", row_hash=not key, estimated_rows=8_000)
    promised = footprint_of("postgresql", bench.source.max_parallel_reads)
    low = [""]

    kept_at = [""]

    def load() -> None:
        low[0] = assert_done(bench.load(table, chunk_rows=2_000)).facts["bound"]

    def prepare(name: str) -> None:
        if name == "sync":
            bench.sql("UPDATE o SET at = clock_timestamp()")
        if name == "restore":
            made = assert_done(mend(bench, table, "savepoint"))
            kept_at[0] = made.facts["savepoint"]

    jobs: dict[str, Callable[[], Any]] = {
        "snapshot": load,
        "sync": lambda: assert_done(bench.sync(table, low[0])),
        "resync": lambda: assert_done(bench.load(table, kind="resync")),
        "verify": lambda: assert_done(bench.verify(table, chunk_rows=2_000)),
        "restore": lambda: assert_done(mend(bench, table, "restore", kept_at[0])),
    }
    for name, job in jobs.items():
        prepare(name)
        most = [0.0] * 4
        with watched(bench.dsn, most):
            job()
        connections, transactions, age, locking = most
        assert 1 <= connections <= promised.connections, name
        # a restore reads no rows: its statements may be over between two looks
        assert int(name != "restore") <= transactions <= promised.transactions, name
        assert age < LIMITS.unused + LIMITS.statement, name
        assert locking == 0, name
        # a server counts a connection until its process has ended
        wait_for(lambda: bench.sql(SEEN)[0][:2] == (0, 0), f"the end of {name}")
