"""Fences and compaction: a superseded writer completes nothing, plans do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hudi import HudiTableBuilder
from pyspark.sql import functions as F

from ingest.contract.job import CompactWork
from ingest.driver.apply import writer
from ingest.driver.apply.writer import Batch, Span
from ingest.driver.table_services import compaction
from ingest.lake.hudi.identity import identity_for
from ingest.lake.hudi.options import (
    CommitPosition,
    WriterFence,
    encode_position,
    write_options,
)
from tests.spark.beginnings import fixture_of
from tests.spark.cut_off import cut_off
from tests.spark.lake_bench import LakeBench, assert_done

CREATE = """CREATE TABLE o (id int PRIMARY KEY, v text, plain timestamp, day date,
  zoned timestamptz, at timestamptz DEFAULT now())"""
ROWS = """INSERT INTO o SELECT g, 'load', '1500-01-02 03:04:05.000006', '1582-10-10',
  '2024-03-31 01:30:00.000001+00', now() - interval '1 day' FROM generate_series(1, 20) g"""


loaded = fixture_of(CREATE, ROWS)


def change(bench: LakeBench, table: Any, low: str, value: str, **k: Any) -> Any:
    bench.sql(f"UPDATE o SET v = '{value}', at = now() WHERE id <= 5")
    return assert_done(bench.sync(table, low, **k))


def seen(bench: LakeBench, table: Any) -> list[tuple[Any, ...]]:
    columns = ("id", "v", "plain", "day", "zoned")
    frame = bench.frame(table).selectExpr(*(f"cast({c} as string)" for c in columns))
    return sorted(tuple(r) for r in frame.collect())


def wanted(bench: LakeBench) -> list[tuple[Any, ...]]:
    return sorted(
        bench.sql(
            "SELECT id::text, v, plain::text, day::text,"
            " (zoned AT TIME ZONE 'UTC')::text FROM o"
        )
    )


def test_reads_stay_right_and_the_position_survives_compaction(loaded: Any) -> None:
    bench, table, low = loaded
    first = change(bench, table, low, "one", compact_after=2)
    second = change(bench, table, first.facts["position"]["to"], "two", compact_after=2)
    pending = second.facts["pending_compactions"]
    assert len(pending) == 1
    third = change(
        bench, table, second.facts["position"]["to"], "three", compact_after=9
    )
    assert seen(bench, table) == wanted(bench)
    report = assert_done(bench.compact(table, *pending))
    assert report.facts["instants"] == pending
    assert report.facts["pending_compactions"] == []
    assert seen(bench, table) == wanted(bench)
    state = bench.state(table)
    assert state.position is not None
    assert state.position.end == third.facts["position"]["to"]
    compacted = next(c for c in state.commits if c.instant.action == "compaction")
    assert compacted.position is not None
    assert compacted.position.identity == identity_for(table)
    assert not (Path(table.path) / ".hoodie" / "metadata").exists()
    # asked again, after its answer was lost
    assert_done(bench.compact(table, *pending))
    change(bench, table, third.facts["position"]["to"], "four")
    assert seen(bench, table) == wanted(bench)


def test_a_reader_without_spark_sees_the_same(lake_bench: LakeBench) -> None:
    """No timestamp without zone: hudi-rs 0.5 knows no local-timestamp of Avro."""
    lake_bench.sql("CREATE TABLE o (id int PRIMARY KEY, v text, at timestamptz)")
    lake_bench.sql("INSERT INTO o SELECT g, 'load', now() FROM generate_series(1, 9) g")
    table = lake_bench.table("o", cursor="at")
    low = assert_done(lake_bench.load(table)).facts["bound"]
    change(lake_bench, table, low, "one", compact_after=9)
    for _ in ("logs merged", "compacted"):
        found = read_without_spark(table)
        assert sorted((r["id"], r["v"]) for r in found) == sorted(
            lake_bench.sql("SELECT id, v FROM o")
        )
        assert_done(lake_bench.compact(table))


def read_without_spark(table: Any) -> list[dict[str, Any]]:
    reader = HudiTableBuilder.from_base_uri(table.path).build()
    return pa.Table.from_batches(reader.read()).to_pylist()


def test_an_unknown_instant_is_refused(loaded: Any) -> None:
    bench, table, _ = loaded
    report = bench.compact(table, "20200101000000000")
    assert report.error is not None
    assert (report.outcome, report.error.code) == ("invalid_request", "unknown_instant")


WRITES = ["upsert", "bulk_insert", "insert_overwrite_table"]


@pytest.mark.parametrize("operation", WRITES)
def test_a_writer_that_is_superseded_midway_leaves_its_instant_inflight(
    loaded: Any, operation: str
) -> None:
    """The fence rises from inside the write's own tasks, so after its instant."""
    bench, table, low = loaded
    place = f"{bench.lake}/_sluice/fence/{table.table_id}"
    target = table if operation != "bulk_insert" else bench.table("o", cursor="at")
    if operation == "bulk_insert":
        place = f"{bench.lake}/_sluice/fence/{target.table_id}"
    data = bench.frame(table)
    columns = [c for c in data.columns if not c.startswith("_hoodie")]
    rows = bench.spark.createDataFrame(
        data.select(*columns).collect(), data.select(*columns).schema
    )

    @F.udf("string")
    def superseded(value: str) -> str:
        Path(place).write_text("2\n")
        return "fenced"

    rows = rows.withColumn("v", superseded("v"))
    rows = rows.withColumn("id", F.coalesce("id", F.lit(0)))
    identity = identity_for(target)
    position = CommitPosition(1, "", "", 800, 800, "old", 1, identity)
    options = write_options(
        identity,
        name=target.name,
        fence=WriterFence(place, 1),
        operation=operation,  # type: ignore[arg-type]
        position=encode_position(position),
    )
    with pytest.raises(Exception, match=r"sluice\.fenced"):
        writer._write(Batch(rows, operation, Span("", "", 1, 1)), target.path, options)  # type: ignore[arg-type]
    pending = bench.state(target).timeline.pending_writes
    assert [i.state for i in pending] == ["INFLIGHT"]
    if operation == "bulk_insert":
        assert not bench.state(target).timeline.completed_writes
        return
    assert {r[1] for r in seen(bench, table)} == {"load"}
    # the new owner removes the rubble and goes on
    bench.sql("UPDATE o SET v = 'owner', at = now() WHERE id = 1")
    report = assert_done(bench.sync(table, low, token=2))
    assert report.facts["rows"] == 1
    assert bench.state(table).timeline.pending_writes == ()
    assert seen(bench, table) == wanted(bench)


def test_an_old_token_is_refused_before_anything_happens(loaded: Any) -> None:
    bench, table, low = loaded
    bench.take_over(table, 5)
    report = bench.sync(table, low, token=1)
    assert report.error is not None
    assert (report.outcome, report.error.code) == ("transient", "fenced")


def test_a_superseded_compactor_leaves_its_plan_to_the_next(
    loaded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, table, low = loaded
    pending = change(bench, table, low, "one", compact_after=1).facts[
        "pending_compactions"
    ]
    real = compaction.sql_text

    def raise_late(text: str) -> str:
        bench.take_over(table, 2, "service")
        return real(text)

    with monkeypatch.context() as patch:
        patch.setattr(compaction, "sql_text", raise_late)
        report = bench.compact(table, *pending)
    assert report.error is not None
    assert (report.outcome, report.error.code) == ("transient", "fenced")
    assert bench.state(table).pending_compactions == tuple(pending)
    assert seen(bench, table) == wanted(bench)
    assert_done(bench.compact(table, *pending, token=2))
    assert bench.state(table).pending_compactions == ()
    assert seen(bench, table) == wanted(bench)


def test_recovery_keeps_requested_compactions(loaded: Any) -> None:
    bench, table, low = loaded
    pending = change(bench, table, low, "one", compact_after=1).facts[
        "pending_compactions"
    ]
    report = assert_done(bench.run(bench.spec("recover", table)))
    assert report.facts["rolled_back"] == []
    assert report.facts["pending_compactions"] == pending


def test_a_compaction_cut_off_while_it_rewrites_is_done_by_the_next(
    loaded: Any,
) -> None:
    """The fence rises as soon as the plan is inflight; nothing is completed then."""
    bench, table, low = loaded
    (asked,) = change(bench, table, low, "one", compact_after=1).facts[
        "pending_compactions"
    ]
    inflight = (
        Path(table.path) / ".hoodie" / "timeline" / f"{asked}.compaction.inflight"
    )
    spec = bench.spec("compact", table, compact=CompactWork((asked,)))
    report = cut_off(bench, spec, inflight.name)
    assert report.error is not None
    assert report.error.code == "fenced"
    assert inflight.exists()
    assert seen(bench, table) == wanted(bench)
    # ingest goes on beside it, then the next compactor takes the plan over
    change(bench, table, low, "two", compact_after=9)
    assert seen(bench, table) == wanted(bench)
    assert_done(bench.compact(table, asked, token=2))
    assert bench.state(table).pending_compactions == ()
    assert seen(bench, table) == wanted(bench)
