"""What syncs and loads leave behind that ended before their commit."""

from __future__ import annotations

from typing import Any

from ingest.driver.apply import partitions
from ingest.driver.capture import timestamp as capture_timestamp
from ingest.lake.place import place_at
from tests.spark.lake_bench import LakeBench, assert_done
from tests.spark.test_syncs import loaded, values

__all__ = ["loaded"]


def staged(table: Any) -> list[str]:
    return sorted(file.path for file in (place_at(table.staging) / "sync").files())


def test_what_failed_and_killed_syncs_staged_is_removed(
    loaded: Any, monkeypatch: Any
) -> None:
    bench, table, low = loaded
    bench.sql("INSERT INTO o VALUES (9, 'nine')")

    def fails(error: BaseException) -> Any:
        def refuse(_: Any, counts: Any) -> None:
            assert staged(table)
            raise error

        return refuse

    with monkeypatch.context() as patch:
        patch.setattr(capture_timestamp, "_refuse", fails(OSError("lost")))
        assert bench.sync(table, low).outcome == "transient"
        assert staged(table) == []
    # killed: nothing of the driver runs any more
    left = place_at(table.staging) / "sync" / "killed-1" / "part-0.parquet"
    left.replace("half a file")
    assert_done(bench.sync(table, low))
    assert staged(table) == []
    assert values(bench, table)[9] == "nine"


def test_a_snapshot_with_too_many_partitions_writes_nothing(
    lake_bench: LakeBench, monkeypatch: Any
) -> None:
    lake_bench.sql("CREATE TABLE p (id int PRIMARY KEY, area text)")
    lake_bench.sql(
        "INSERT INTO p SELECT g, 'area ' || g % 5 FROM generate_series(1, 20) g"
    )
    table = lake_bench.table("p", partition_by=("area",))
    with monkeypatch.context() as patch:
        patch.setattr(partitions, "MOST_PARTITIONS", 4)
        refused = lake_bench.load(table)
        assert refused.outcome == "invalid_request"
        assert refused.error is not None
        assert refused.error.code == "too_many_partitions"
        assert not lake_bench.state(table).exists
        patch.setattr(partitions, "MOST_PARTITIONS", 5)
        assert_done(lake_bench.load(table))
    assert len(lake_bench.rows(table, "id")) == 20
