"""What a session keeps of a stream, and what it reads of one table for a commit."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from core.errors import StaleState, TerminalError
from ingest.contract.segments import AHEAD, Control, Segment, StreamTable
from ingest.contract.source_positions import PostgresLog
from ingest.contract.table import ColumnSpec, SealedColumn, TableSpec
from ingest.driver.apply import log_read
from ingest.driver.apply.log_read import Stream, Waiting, is_before, is_reached
from ingest.lake import folding
from ingest.lake.chain import (
    ChainIndex,
    begin_stream,
    collect,
    read_beginning,
    segment_name,
    stream_folder,
    take_over,
)
from ingest.lake.files import LocalPlace
from ingest.lake.folding import Folder
from ingest.lake.hudi.options import LoadPoint
from ingest.lake.segment_files import SegmentBuilder
from ingest.sources.row_batches import schema_of

TABLE, OTHER = 7, 8
SPEC = TableSpec(
    7,
    "public",
    "t",
    "db",
    "t",
    "",
    "",
    (ColumnSpec("id", "id", "bigint", "bigint"),),
    ("id",),
)
COLUMNS = (SealedColumn("c0", "id", "bigint"),)
SCHEMA = schema_of(COLUMNS, [pa.int64()])


def place(lsn: int, server: str = "1") -> str:
    return PostgresLog(server, 1, lsn).encode()


class Log:
    """A stream in a folder, and one that reads it."""

    def __init__(self, lake: Path) -> None:
        folder = stream_folder(str(lake), "pg")
        begin_stream(folder, above=0)
        writer = take_over(
            folder, stream="pg", writer="w", server="1:1", begin=place(0)
        )
        self.builder = SegmentBuilder(writer)
        self.folder = folder
        self.stream = Stream(ChainIndex(folder, "pg"))
        self.lsn = 0

    def close(self, *tables: int, rows: int = 1) -> Segment:
        for table in tables:
            batch = pa.record_batch(
                [[0] * rows, [1] * rows, [None] * rows, list(range(rows))],
                schema=SCHEMA,
            )
            self.builder.add(table, 1, batch)
        self.lsn += 1
        made = self.builder.close(end=place(self.lsn), committed=self.lsn)
        while self.stream.refresh():
            pass
        return made

    def cut(self, table: int, *, load: str) -> Segment:
        self.lsn += 1
        said = Control("added", table), Control("cut", table, load=load)
        made = self.builder.close(end=place(self.lsn), controls=said)
        while self.stream.refresh():
            pass
        return made

    def read(
        self, *, after: int = 0, table: TableSpec = SPEC
    ) -> tuple[Waiting, list[int]]:
        """And of which segments the rows are."""
        waiting = Waiting(self.stream, table, after)
        return waiting, [part.number for piece in waiting.pieces() for part in piece]

    def finish(self, table: int) -> None:
        self.lsn += 1
        said = [Control("finished", table, at=place(self.lsn))]
        self.builder.close(end=place(self.lsn), controls=said)
        while self.stream.refresh():
            pass


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def test_a_commit_covers_the_stream_up_to_its_end(log: Log) -> None:
    log.close(TABLE, OTHER, rows=3)
    log.close(OTHER)
    log.close(TABLE)
    end = log.close(OTHER)
    waiting, numbers = log.read()
    assert numbers == [2, 4]
    assert (waiting.first and waiting.first.number, waiting.last) == (2, end)
    assert (waiting.rows, waiting.committed) == (4, 3)
    waiting, numbers = log.read(after=4)
    assert (waiting.first, numbers) == (None, [])


def test_segments_are_taken_whole_up_to_a_limit(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_read, "MOST_ROWS", 4)
    for rows in (3, 3, 1):
        log.close(TABLE, rows=rows)
    waiting, numbers = log.read()
    assert (numbers, waiting.last and waiting.last.number) == ([2, 3], 3)
    waiting, numbers = log.read(after=3)
    assert (numbers, waiting.last and waiting.last.number) == ([4], 4)


def test_no_commit_passes_the_cut_of_a_load_that_is_on_the_way(log: Log) -> None:
    """It would pass for the load."""
    log.close(TABLE)
    cut = log.cut(TABLE, load="a")
    log.close(TABLE)
    waiting, numbers = log.read(after=1)
    assert (waiting.first, waiting.last, numbers) == (None, None, [])
    assert log.read(after=cut.number)[1] == [4], "the load is in the lake"


def test_what_is_kept_of_a_stream_is_bounded(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_read, "MOST_PARTS", 5)
    for _ in range(10):
        log.close()
    for _ in range(3):
        log.close(TABLE)
    assert sorted(log.stream._kept) == [13, 14]
    assert log.read()[1] == [12, 13, 14], "old ones are read again"
    assert len(log.stream._kept) == 2


def test_a_segment_that_was_collected_meanwhile_counts_for_nothing(log: Log) -> None:
    log.close(TABLE)
    log.close(TABLE)
    other = ChainIndex(log.folder, "pg")
    while other.refresh():
        pass
    collect(other, first=3, needs={})
    with pytest.raises(StaleState) as gone:
        log.read()
    assert gone.value.code == "segment_collected"


def test_what_comes_is_seen_by_the_next_look_and_the_beginning_twice_a_second(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of hundreds of tables that is half a megabyte, ten times a second."""
    tenths = itertools.count()
    stream = Stream(ChainIndex(log.folder, "pg"), now=lambda: next(tenths) / 10)
    while stream.look():
        pass
    read, whole = LocalPlace.read, []

    def counted(place: LocalPlace) -> bytes | None:
        whole.append(place.uri)
        return read(place)

    monkeypatch.setattr(LocalPlace, "read", counted)
    for _ in range(600):
        assert stream.look() == []
    assert 100 < len(whole) <= 121
    made = log.close(TABLE)
    assert stream.look() == [made]


def fold(log: Log, *, after: int) -> None:
    other = ChainIndex(log.folder, "pg")
    needs = {TABLE: after}
    while other.refresh():
        pass
    collect(other, first=other.needed_from(needs), needs=needs)
    other.refresh()
    folder = Folder(other)
    while folder.fold(needs, before=other.newest.number if other.newest else 0):
        other.refresh()


@pytest.fixture
def folded(log: Log, monkeypatch: pytest.MonkeyPatch) -> Log:
    """Rows of the table in 3, 5 and 7; 3 to 6 may be folded, by twos."""
    monkeypatch.setattr(folding, "LEAST_SEGMENTS", 2)
    for rows in (1, 2, 3):
        log.close(OTHER, rows=100)
        log.close(TABLE, rows=rows)
    log.close(OTHER)
    return log


def test_rows_that_were_folded_are_read_as_before(folded: Log) -> None:
    expected, numbers = folded.read()
    fold(folded, after=0)
    assert read_beginning(folded.folder).number == 7
    for refresh in (False, True):
        if refresh:
            folded.stream.refresh()
            waiting, found = folded.read()
            assert (found, waiting.rows) == (numbers, 6)
            assert waiting.first
            assert expected.first
            assert waiting.first.start == expected.first.start
            assert waiting.last == expected.last
            assert folded.read(after=3)[1] == [5, 7]
        else:  # it thinks that the segments are there
            with pytest.raises(StaleState):
                folded.read()


def test_what_was_folded_while_it_was_read_counts_for_nothing(
    folded: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A segment's file may have been a stopped writer's: another thread of the session
    knows of the folds already, this one has read before."""
    read = Stream.segment

    def segment(stream: Stream, table_id: int, number: int) -> Segment | None:
        found = read(stream, table_id, number)
        if number == 3:
            fold(folded, after=0)
            stream.refresh()
        return found

    monkeypatch.setattr(Stream, "segment", segment)
    with pytest.raises(StaleState):
        folded.read()
    assert folded.read()[1] == [3, 5, 7]


def test_a_fold_that_its_table_needs_no_more_is_no_damage(folded: Log) -> None:
    fold(folded, after=0)
    folded.stream.refresh()
    assert folded.stream.segment(TABLE, 3)
    other = ChainIndex(folded.folder, "pg")
    other.refresh()
    collect(other, first=7, needs={TABLE: 5})
    with pytest.raises(StaleState):
        folded.read()


def test_a_segment_that_is_missing_is_damage(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.close(TABLE)
    (log.folder / segment_name(2)).delete()
    log.stream._kept.clear()
    with pytest.raises(TerminalError, match=r"segment 2 at .* is missing"):
        log.read()


def test_places_of_two_servers_have_no_order() -> None:
    assert is_before(place(1), place(2))
    assert not is_before(place(2), place(2))
    with pytest.raises(TerminalError, match="different servers"):
        is_before(place(1), place(2, server="2"))


def test_a_load_is_over_at_another_server_where_the_stream_says_so() -> None:
    """A table without changes since its load would need another one, as its source
    fails over."""
    load = LoadPoint(place(5), "")
    told = StreamTable("finished", cut=1, at=place(5))
    assert is_reached(place(5), load, told)
    assert not is_reached(place(4), load, told)
    there = place(9, server="2")
    assert not is_reached(there, load, told)
    carried = replace(told, at=place(7, server="2"))
    assert is_reached(there, load, carried)
    assert not is_reached(place(6, server="2"), load, carried)
    assert not is_reached(place(4), load, carried)
    assert not is_reached(there, load, replace(carried, state="deferred"))


def test_who_went_back_behind_the_newest_load_does_not_go_on(log: Log) -> None:
    log.close(TABLE)
    assert not log.stream.is_lost(TABLE, 1)
    cut = log.cut(TABLE, load="again").number
    log.finish(TABLE)
    log.close(TABLE)
    assert log.stream.is_lost(TABLE, cut - 1)
    assert not log.stream.is_lost(TABLE, cut)


def test_it_ends_before_rows_of_which_the_plan_has_not_decided(log: Log) -> None:
    more = (*COLUMNS, SealedColumn("c1", "n", "int"))
    schema = schema_of(more, [pa.int64(), pa.int32()])
    batch = pa.record_batch([[0], [1], [None], [5], [6]], schema=schema)
    log.close(TABLE)
    log.builder.add(TABLE, AHEAD, batch)
    log.close(TABLE)
    waiting, numbers = log.read()
    assert numbers == [2]
    assert waiting.last is not None
    assert (waiting.last.number, waiting.ahead) == (2, ("n",))
    waiting, numbers = log.read(after=2)
    assert (numbers, waiting.last, waiting.ahead) == ([], None, ("n",))
    n = ColumnSpec("n", "n", "integer", "int")
    for decided in (
        replace(SPEC, left_out=("n",)),
        replace(SPEC, columns=(*SPEC.columns, n)),
    ):
        waiting, numbers = log.read(table=decided)
        assert (numbers, waiting.ahead) == ([2, 3, 3], ())


def test_it_ends_before_rows_that_lack_what_the_plan_still_has(log: Log) -> None:
    """A column that the plan gets later is missing there, too, and holds up nothing."""
    schema = schema_of(COLUMNS, [pa.int64()], gone=["n"])
    batch = pa.record_batch([[0], [1], [None], [5]], schema=schema)
    log.builder.add(TABLE, AHEAD, batch)
    log.close(TABLE)
    n = ColumnSpec("n", "n", "integer", "int")
    planned = replace(SPEC, columns=(*SPEC.columns, n))
    waiting, numbers = log.read(table=planned)
    assert (numbers, waiting.last, waiting.ahead) == ([], None, ("n",))
    later = ColumnSpec("m", "m", "integer", "int")
    for decided in (SPEC, replace(SPEC, columns=(*SPEC.columns, later))):
        waiting, numbers = log.read(table=decided)
        assert waiting.ahead == ()
        assert numbers
