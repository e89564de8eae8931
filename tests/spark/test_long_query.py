"""A query that takes long keeps its files: cleaning leaves them as long as one may."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.lake.hudi import keeping
from tests.spark.lake_bench import assert_done
from tests.spark.test_maintenance import change, loaded, seen, wanted
from tests.spark.test_repair import mend

__all__ = ["loaded"]


def test_a_query_reads_on_while_the_table_is_compacted_and_cleaned(
    loaded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "LEAST_COMMITS", 1)
    bench, table, low = loaded
    low = change(bench, table, low, "then", compact_after=9).facts["position"]["to"]
    rows = seen(bench, table)
    held = bench.frame(table).select("id", "v").rdd
    held.getNumPartitions()  # its files are chosen now, and read by each collect()
    for value in ("one", "two"):
        done = change(bench, table, low, value, compact_after=1)
        low = done.facts["position"]["to"]
        assert_done(bench.compact(table, *done.facts["pending_compactions"]))
        assert read(held) == [row[:2] for row in rows]
    # a shorter limit takes them away; what is there now stays whole
    assert_done(mend(bench, table, "clean", keep_seconds=0.0))
    with pytest.raises(Exception, match=r"does not exist|FileNotFound"):
        held.collect()
    assert seen(bench, table) == wanted(bench)


def read(held: Any) -> list[tuple[str, str]]:
    return sorted((str(row["id"]), row["v"]) for row in held.collect())
