"""Segments go when no table and no savepoint needs them, as the lake tables say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from core.errors import TransientError
from ingest.contract.segments import Control
from ingest.contract.table import ColumnSpec, TableSpec
from ingest.follower import collector
from ingest.follower.collector import Collector, Kept
from ingest.lake import folding
from ingest.lake.chain import (
    ChainIndex,
    begin_stream,
    collect,
    read_segment,
    stream_folder,
    take_over,
)
from ingest.lake.port import Place
from ingest.lake.segment_files import SegmentBuilder
from tests.doubles.launcher import write_applied
from tests.doubles.log_source import Row, batch_of
from tests.waiting import wait_for

COLUMNS = (ColumnSpec("id", "id", "integer", "int"),)


@dataclass
class Stream:
    folder: Place
    builder: SegmentBuilder
    tables: list[TableSpec]
    collector: Collector

    def segment(self, *tables: int) -> int:
        for table in tables:
            self.builder.add(table, 1, batch_of([(1, Row("t", "insert", 1))]))
        number = self.builder.writer.next_number
        return self.builder.close(end=str(number)).number

    def applied(self, table: int, epoch: int) -> str:
        """A commit of the lake table that reached it; its instant."""
        return write_applied(self.tables[table - 1], epoch)

    def numbers(self) -> list[int]:
        found = (read_segment(self.folder, number) for number in range(1, 40))
        return [segment.number for segment in found if segment]


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    """Two tables that were cut in segment 2; rows of the first in 3, 4 and 6, of the
    second in 4."""
    folder = stream_folder(str(tmp_path / "lake"), "pg1")
    begin_stream(folder, above=0)
    writer = take_over(folder, stream="pg1", writer="w", server="s", begin="0")
    writer.append(end="0", controls=[Control("cut", n, load="L") for n in (1, 2)])
    tables = [
        TableSpec(n, "public", f"t{n}", "db", f"t{n}", str(tmp_path / f"t{n}"), "", COLUMNS, ("id",))
        for n in (1, 2)
    ]  # fmt: skip
    made = Stream(
        folder,
        SegmentBuilder(writer),
        tables,
        Collector(folder, "pg1", lambda: tables),
    )
    made.segment(1)
    made.segment(1, 2)
    made.segment()
    made.segment(1)
    return made


def test_the_first_that_some_table_needs_is_kept(stream: Stream) -> None:
    stream.collector.collect()
    # both loads are awaited
    assert stream.numbers() == [3, 4, 5, 6]
    stream.applied(1, 4)
    stream.applied(2, 2)
    stream.collector.collect()
    assert stream.numbers() == [4, 5, 6]
    stream.applied(2, 4)
    stream.collector.collect()
    assert stream.numbers() == [6]
    assert stream.collector.first == 6
    assert stream.collector.waiting_bytes > 0
    stream.applied(1, 6)
    stream.segment()
    stream.collector.collect()
    assert stream.numbers() == [7]


def test_what_a_savepoint_goes_back_to_is_kept(stream: Stream) -> None:
    kept = stream.applied(1, 3)
    stream.applied(1, 6)
    stream.applied(2, 6)
    timeline = Path(stream.tables[0].path) / ".hoodie" / "timeline"
    savepoint = timeline / f"{kept}_{int(kept) + 5:017d}.savepoint"
    savepoint.touch()
    stream.collector.collect()
    assert stream.numbers() == [4, 5, 6]
    savepoint.unlink()
    stream.collector.collect()
    assert stream.numbers() == [6]


def spoil(stream: Stream, table: int, instant: str) -> Path:
    """A newer commit of the lake table that cannot be read."""
    timeline = Path(stream.tables[table - 1].path) / ".hoodie" / "timeline"
    spoilt = timeline / f"{instant}_{int(instant) + 1:017d}.deltacommit"
    spoilt.write_bytes(b"\0" * 99)
    return spoilt


def test_a_lake_table_that_could_never_be_read_keeps_all_of_its_own(
    stream: Stream,
) -> None:
    """What it needs is not known, though its load is before all that is kept."""
    for table in (1, 2):
        stream.applied(table, 2 + table)
    stream.collector.collect()
    assert stream.numbers() == [4, 5, 6]
    stream.applied(2, 6)
    instant = stream.applied(1, 6)
    spoil(stream, 1, instant)
    begun = Collector(stream.folder, "pg1", lambda: stream.tables)
    begun.collect()
    assert stream.numbers() == [4, 5, 6]
    assert begun.unread.startswith("lake table ")
    assert "cannot be read" in begun.unread


def test_a_lake_table_that_cannot_be_read_any_more_holds_what_it_held(
    stream: Stream,
) -> None:
    stream.applied(1, 3)
    stream.applied(2, 2)
    stream.collector.collect()
    assert stream.numbers() == [4, 5, 6]
    instant = stream.applied(1, 4)
    stream.collector.collect()
    assert stream.numbers() == [4, 5, 6]
    spoilt = spoil(stream, 1, instant)
    stream.applied(2, 6)
    stream.collector.collect()
    assert stream.numbers() == [6], "what the other table applied goes"
    spoilt.unlink()
    stream.applied(1, 6)
    stream.segment()
    stream.collector.collect()
    assert stream.numbers() == [7]


def test_whatever_goes_wrong_it_goes_on(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "PERIOD_SECONDS", 0.01)
    for table in (1, 2):
        stream.applied(table, 6)
    failures = [ZeroDivisionError("a defect")]

    def tables() -> list[TableSpec]:
        if failures:
            raise failures.pop()
        return stream.tables

    begun = Collector(stream.folder, "pg1", tables)
    begun.start()
    wait_for(lambda: stream.numbers() == [6], "the collection")
    begun.stop()


def test_a_table_that_waits_for_nothing_holds_nothing(stream: Stream) -> None:
    stream.applied(1, 6)
    end = stream.builder.writer.last.end
    stream.builder.close(end=end, controls=[Control("deferred", 2, reason="late")])
    stream.tables[1] = replace(stream.tables[1], path="/nowhere")
    stream.collector.collect()
    assert stream.numbers() == [7]


def test_what_readers_of_changes_may_want_stays_within_its_bounds(
    stream: Stream,
) -> None:
    """It counts for no table as waiting."""

    def commit(seconds: int) -> int:
        stream.builder.add(1, 1, batch_of([(1, Row("t", "insert", 1))]))
        end = str(stream.builder.writer.next_number)
        return stream.builder.close(end=end, committed=seconds * 1_000_000).number

    for seconds in (100, 110, 120):
        commit(seconds)
    stream.segment()
    for table in (1, 2):
        stream.applied(table, 10)
    kept = Kept(15.0, 1 << 20)
    reader = Collector(
        stream.folder, "pg1", lambda: stream.tables, lambda: kept, lambda: 124.0
    )
    reader.collect()
    assert stream.numbers() == [8, 9, 10], "those of 110 and 120, and the newest"
    assert reader.first == 10
    alone = reader.waiting_bytes
    kept = Kept(15.0, 1_000)
    reader.collect()
    assert stream.numbers() == [9, 10]
    kept = Kept()
    reader.collect()
    assert stream.numbers() == [10]
    assert reader.waiting_bytes <= alone


def test_old_segments_that_few_tables_need_are_folded(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folding, "LEAST_SEGMENTS", 4)
    stream.applied(1, 2)
    stream.applied(2, 2)
    for _ in range(30):
        stream.segment(*[2] * 30)
    stream.collector.collect()
    assert stream.numbers()[0] == 3
    whole = stream.collector.waiting_bytes
    stream.applied(2, 36)
    stream.collector.collect()
    assert stream.collector.first == 3
    stream.collector.collect()
    assert stream.numbers() == [36]
    assert stream.collector.first == 3
    assert stream.collector.waiting_bytes < whole / 3
    stream.applied(1, 6)
    stream.collector.collect()
    assert stream.collector.first == 36
    assert not [n for n in stream.folder.names() if n.endswith(".fold")]


def test_what_waits_is_counted_where_there_is_no_room_to_fold(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = TransientError("there is no room", code="storage_full")
    monkeypatch.setattr(folding.Folder, "fold", Mock(side_effect=refused))
    with pytest.raises(TransientError):
        stream.collector.collect()
    assert stream.collector.first == 3
    assert stream.collector.waiting_bytes


def test_what_a_load_needs_that_began_meanwhile_is_not_folded(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it was asked who needs what, nothing was waited for."""
    monkeypatch.setattr(folding, "LEAST_SEGMENTS", 2)
    stream.applied(1, 3)
    builder, end = stream.builder, stream.builder.writer.last.end
    builder.close(end=end, controls=[Control("deferred", 2, reason="late")])

    def collect_then_write(*given: object, **more: object) -> None:
        collect(*given, **more)  # type: ignore[arg-type]
        builder.close(end=end, controls=[Control("cut", 2, load="M")])
        stream.segment(*[2] * 30)
        stream.segment()

    monkeypatch.setattr(collector, "collect", collect_then_write)
    stream.collector.collect()
    assert {8, 9, 10} <= {*stream.numbers()}
    index = ChainIndex(stream.folder, "pg1")
    while index.refresh():
        pass
    assert not index.is_lost(2, 8)
    assert index.about(2, after=8) == [9]
