"""What a read of many small log files takes of the heap."""

from __future__ import annotations

from typing import Any

from tests.spark.beginnings import Beginnings, loaded_from
from tests.spark.lake_bench import LakeBench, assert_done

CREATE = "CREATE TABLE o (id int PRIMARY KEY, v text, at timestamptz DEFAULT now())"
ROWS = "INSERT INTO o SELECT g, 'load', now() - interval '1 day' FROM generate_series(1, 5) g"
# Bytes of one buffer; a log file took four of these for a read, which takes 90 MiB else.
HUDIS_OWN = 16 << 20
ROUNDS = 8


def allocated(spark: Any) -> int:
    """Bytes that the threads which live now ever took; those of tasks are kept."""
    jvm = spark._jvm
    threads = jvm.java.lang.management.ManagementFactory.getThreadMXBean()
    taken = threads.getThreadAllocatedBytes(threads.getAllThreadIds())
    return sum(max(0, each) for each in taken)


def test_small_log_files_cost_small_buffers(
    lake_bench: LakeBench, beginnings: Beginnings
) -> None:
    bench = lake_bench
    table, facts = beginnings.copy(bench, loaded_from(CREATE, ROWS))
    low = facts["bound"]
    for n in range(ROUNDS):
        bench.sql(f"UPDATE o SET v = '{n}', at = now() WHERE id = 1")
        low = assert_done(bench.sync(table, low)).facts["position"]["to"]
    wanted = [(1, str(ROUNDS - 1)), *((n, "load") for n in range(2, 6))]
    assert bench.rows(table, "id", "v") == wanted
    before = allocated(bench.spark)
    assert bench.rows(table, "id", "v") == wanted
    assert allocated(bench.spark) - before < ROUNDS * HUDIS_OWN
