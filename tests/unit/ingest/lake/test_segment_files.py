"""Parts of segments: rows of many tables, one read without the others."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from ingest.contract.segments import OP, UNCHANGED, XID, Control
from ingest.contract.table import SealedColumn
from ingest.lake.chain import begin_stream, read_segment, stream_folder, take_over
from ingest.lake.port import Place
from ingest.lake.segment_files import SegmentBuilder, read_table
from ingest.sources.row_batches import columns_in, schema_of

COLUMNS = (SealedColumn("c0", "größe", "int"), SealedColumn("c1", "op", "string", 0))
SCHEMA = schema_of(COLUMNS, [pa.int32(), pa.string()], masks=1)


def rows(*values: int) -> pa.RecordBatch:
    count = len(values)
    columns = [
        pa.array([1] * count, pa.int8()),
        pa.array([77] * count, pa.uint32()),
        pa.array([b"\2"] + [None] * (count - 1), pa.binary()),
        pa.array(values, pa.int32()),
        pa.array(["x"] * count),
        pa.array([0] * count, pa.int64()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def builder(tmp_path: Path, **more: int) -> tuple[Place, SegmentBuilder]:
    folder = stream_folder(str(tmp_path), "pg")
    begin_stream(folder, above=0)
    writer = take_over(folder, stream="pg", writer="w", server="a", begin="0")
    return folder, SegmentBuilder(writer, **more)


def test_tables_are_read_one_by_one(tmp_path: Path) -> None:
    folder, build = builder(tmp_path)
    build.add(7, 1, rows(1, 2))
    build.add(8, 1, rows(10))
    build.add(7, 1, rows(3))
    build.add(7, 2, rows(4))
    assert build.rows == 5
    made = build.close(end="5", controls=[Control("added", 7)], committed=9)
    assert made == read_segment(folder, 2)
    assert [(p.table_id, p.schema_version, p.rows) for p in made.parts] == [
        (7, 1, 3),
        (7, 2, 1),
        (8, 1, 1),
    ]
    found = read_table(folder, made, made.parts[0])
    assert columns_in(found.schema) == COLUMNS
    assert found["c0"].to_pylist() == [1, 2, 3]
    assert found[UNCHANGED].to_pylist() == [b"\2", None, b"\2"]
    assert found[OP].to_pylist() == [1, 1, 1]
    assert found[XID].to_pylist() == [77, 77, 77]
    assert build.rows == 0
    assert build.close(end="6").parts == ()


def test_large_epochs_are_written_beside_their_segment(tmp_path: Path) -> None:
    folder, build = builder(tmp_path, spill_bytes=200)
    for number in range(20):
        build.add(7, 1, rows(number, number))
        build.add(8, 1, rows(-number))
    made = build.close(end="5")
    assert len(made.files) > 3
    for table, expected in (
        (7, [n for n in range(20) for _ in "ab"]),
        (8, [-n for n in range(20)]),
    ):
        found = [read_table(folder, made, p)["c0"] for p in made.parts_of(table)]
        assert [v for one in found for v in one.to_pylist()] == expected
    assert build.close(end="6").files == frozenset()


def test_much_of_the_same_is_compressed(tmp_path: Path) -> None:
    folder, build = builder(tmp_path)
    build.add(7, 1, rows(*[5] * 20_000))
    made = build.close(end="5")
    assert made.parts[0].bytes < 100_000
    assert read_table(folder, made, made.parts[0])["c0"].to_pylist() == [5] * 20_000
