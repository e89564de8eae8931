"""What syncs leave behind that ended before their seal."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.driver.apply import partitions
from ingest.driver.capture import timestamp as capture_timestamp
from ingest.lake.epochs import epoch_folder
from tests.spark.lake_bench import LakeBench, assert_done
from tests.spark.test_repair import mend
from tests.spark.test_syncs import loaded, values

__all__ = ["loaded"]


def events_of(bench: LakeBench, epoch: int) -> list[str]:
    return [file.path for file in epoch_folder(bench.lake, 1, epoch).files()]


def test_events_of_failed_syncs_are_removed(loaded: Any, monkeypatch: Any) -> None:
    bench, table, low = loaded
    bench.sql("INSERT INTO o VALUES (9, 'nine')")

    def fails(error: BaseException) -> Any:
        def refuse(table: Any, counts: Any) -> None:
            assert events_of(bench, bench._epoch)
            raise error

        return refuse

    with monkeypatch.context() as patch:
        patch.setattr(capture_timestamp, "_refuse", fails(OSError("lost")))
        assert bench.sync(table, low).outcome == "transient"
        assert events_of(bench, bench._epoch) == []
        # killed: nothing of the driver runs any more
        patch.setattr(capture_timestamp, "_refuse", fails(KeyboardInterrupt()))
        patch.setattr(capture_timestamp, "_drop_unsealed", lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            bench.sync(table, low)
    killed = bench._epoch
    # before a commit is past it nobody can tell that it stays without a seal
    assert_done(mend(bench, table, "clean"))
    assert events_of(bench, killed)
    assert_done(bench.sync(table, low))
    assert_done(mend(bench, table, "clean"))
    assert not epoch_folder(bench.lake, 1, killed).exists()
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
