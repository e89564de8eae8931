"""The chain of a stream over both storages: writers, readers, collection."""

from __future__ import annotations

import pytest

from core.errors import StaleState, TerminalError
from ingest.contract.segments import (
    Control,
    Segment,
    StreamTable,
    encode_segment,
    part_of,
)
from ingest.lake.chain import (
    BODY_AT,
    ChainIndex,
    ChainWriter,
    Gap,
    begin_stream,
    collect,
    newest_number,
    read_beginning,
    read_rows,
    read_segment,
    remove_orphans,
    segment_name,
    stream_folder,
    take_over,
)
from ingest.lake.port import Place


@pytest.fixture
def folder(lake: str) -> Place:
    made = stream_folder(lake, "pg")
    begin_stream(made, above=100)
    return made


def writer_of(folder: Place, name: str, server: str = "a") -> ChainWriter:
    return take_over(folder, stream="pg", writer=name, server=server, begin="0")


def write(writer: ChainWriter, end: str, *tables: int, **more: object) -> Segment:
    parts, body = [], b""
    for table in tables:
        data = f"{end} of {table}".encode()
        at = BODY_AT + len(body)
        parts.append(part_of(table, data, rows=1, schema_version=1, offset=at))
        body += data
    return writer.append(end=end, parts=parts, body=body, **more)


STRAY = Segment("pg", 101, "0", "9", "a", "stopped")


def index_of(folder: Place) -> ChainIndex:
    index = ChainIndex(folder, "pg")
    index.refresh()
    return index


def test_segments_follow_each_other(folder: Place) -> None:
    assert begin_stream(folder, above=7).number == 101
    writer = writer_of(folder, "one")
    made = write(writer, "5", 1, 2)
    assert (made.number, made.start, made.end) == (102, "0", "5")
    found = read_segment(folder, 102)
    assert found == made
    (second,) = made.parts_of(2)
    assert read_rows(folder, made, second) == b"5 of 2"
    assert read_segment(folder, 103) is None


def test_a_footer_longer_than_one_request_is_read(folder: Place) -> None:
    writer = writer_of(folder, "one")
    made = write(writer, "5", *range(1, 600))
    assert read_segment(folder, made.number) == made


def test_the_next_number_shuts_the_former_writer_out(folder: Place) -> None:
    first = writer_of(folder, "one")
    write(first, "5", 1)
    second = writer_of(folder, "two")
    assert (second.last.start, second.last.end) == ("5", "5")
    for _ in range(2):
        with pytest.raises(StaleState) as error:
            write(first, "6", 1)
        assert error.value.code == "superseded"
    assert write(second, "6", 1).number == 104


def test_a_stopped_writer_whose_number_was_collected_is_shut_out(folder: Place) -> None:
    first = writer_of(folder, "one")
    second = writer_of(folder, "two")
    for end in range(5):
        write(second, str(end))
    collect(index_of(folder), first=106, needs={})
    assert read_beginning(folder).number == 106
    with pytest.raises(StaleState):
        write(first, "9", 1)
    assert read_segment(folder, 102) is None


def test_another_server_does_not_go_on(folder: Place) -> None:
    write(writer_of(folder, "one"), "5", 1)
    with pytest.raises(TerminalError) as error:
        writer_of(folder, "two", server="b")
    assert error.value.code == "source_changed"


def test_a_gap_is_passed_over_by_one_writer(folder: Place) -> None:
    """Of two that were to pass over it, the later would go back to where it began."""
    end = write(writer_of(folder, "one"), "5").end
    gap = Gap(end, lambda: [Control("deferred", 7, reason="a gap")])
    more = {"stream": "pg", "server": "b", "begin": "9", "gap": gap}
    made = take_over(folder, writer="two", **more).last
    assert (made.start, made.end, made.server) == ("5", "9", "b")
    assert [(one.kind, one.table_id) for one in made.controls] == [("deferred", 7)]
    with pytest.raises(StaleState, match="another"):
        take_over(folder, writer="three", **more)


def test_a_stream_has_to_be_begun(lake: str) -> None:
    with pytest.raises(TerminalError) as error:
        writer_of(stream_folder(lake, "none"), "one")
    assert error.value.code == "stream_unknown"


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 20])
def test_the_newest_is_found(folder: Place, count: int) -> None:
    if count:
        writer = writer_of(folder, "one")
        for number in range(count - 1):
            write(writer, str(number))
    for start in {101, max(101, 100 + count)}:
        assert newest_number(folder, start=start) == 100 + count


def test_an_index_reads_each_segment_once(folder: Place) -> None:
    writer = writer_of(folder, "one")
    index = ChainIndex(folder, "pg")
    write(writer, "1", 7, controls=[Control("added", 7)])
    assert [s.number for s in index.refresh()] == [101, 102]
    write(writer, "2", 8)
    write(writer, "3", 7, 8, controls=[Control("cut", 7, load="l")])
    assert [s.number for s in index.refresh()] == [103, 104]
    assert index.refresh() == []
    assert index.about(7, after=0) == [102, 104]
    assert index.about(8, after=103) == [104]
    assert index.about(9, after=0) == []
    waiting = [index.waiting(*of, after=at) for *of, at in ((7, 0), (7, 102), (9, 0))]
    assert waiting == [(102, 2), (104, 1), (0, 0)]
    assert index.tables()[7] == StreamTable("cut", 104, 104, "l")
    assert index.tables(before=104)[7] == StreamTable("added", 102)


def test_a_chain_that_does_not_go_on_is_refused(folder: Place) -> None:
    writer = writer_of(folder, "one")
    write(writer, "1", 7)
    writer.last = Segment("pg", 102, "0", "gap", "a", "one")
    write(writer, "2", 7)
    with pytest.raises(TerminalError) as error:
        index_of(folder)
    assert error.value.code == "stream_broken"


def followed(folder: Place) -> ChainIndex:
    """Table 7 cut at 102, with rows in 103, 105 and 107; 8 only added."""
    writer = writer_of(folder, "one")
    said = [Control("added", 7), Control("cut", 7), Control("added", 8)]
    write(writer, "1", controls=said)
    for number in range(103, 109):
        write(writer, str(number), *([7] if number % 2 else [8]))
    return index_of(folder)


def needed(index: ChainIndex, *known: dict[int, int]) -> int:
    return index.needed_from(index.needs(*known))


def test_what_is_needed_stays(folder: Place) -> None:
    index = followed(folder)
    assert needed(index, {}) == 103
    assert needed(index, {7: 103}) == 105
    assert needed(index, {7: 107}) == 108
    assert needed(index, {7: 107}, {7: 104}) == 105
    collect(index, first=needed(index, {7: 103}), needs={})
    assert not any((folder / segment_name(n)).exists() for n in range(101, 105))
    again = index_of(folder)
    assert again.beginning.tables[7] == StreamTable("cut", 103, 102)
    assert again.about(7, after=0) == [105, 107]
    assert again.tables() == index.tables()
    # a table that is quiet for long loses nothing, one that went back does
    assert not again.is_lost(7, 103)
    assert again.is_lost(7, 102)
    assert again.is_ahead(109)
    assert not again.is_ahead(108)
    assert needed(again, {7: 102}, {7: 102}) == 108
    index.refresh()
    assert index.beginning == again.beginning
    assert index.about(7, after=0) == [105, 107]


def test_nothing_waits_for_tables_that_are_deferred_or_removed(folder: Place) -> None:
    index = followed(folder)
    writer = writer_of(folder, "two")
    write(writer, "z", controls=[Control("deferred", 7, reason="its load")])
    index.refresh()
    assert needed(index, {7: 103}) == 110
    write(writer, "z", 7, controls=[Control("cut", 7, load="again")])
    write(writer, "z", 7)
    index.refresh()
    assert needed(index, {7: 103}) == 112
    assert needed(index, {7: 103}, {7: 102}) == 112


def test_the_newest_segment_always_stays(folder: Place) -> None:
    index = followed(folder)
    collect(index, first=10_000, needs={})
    assert [n for n in folder.names() if n.endswith(".seg")] == [segment_name(108)]
    assert writer_of(folder, "two").last.number == 109


def test_a_reader_that_was_away_goes_on_where_the_stream_begins(folder: Place) -> None:
    late = ChainIndex(folder, "pg")
    writer = writer_of(folder, "one")
    late.refresh()
    for end in range(6):
        write(writer, str(end), 7)
    collect(index_of(folder), first=106, needs={})
    assert [s.number for s in late.refresh()] == [106, 107]
    assert late.is_lost(7, 101)


def test_an_index_takes_up_no_file_of_a_stopped_writer(folder: Place) -> None:
    late = ChainIndex(folder, "pg")
    late.refresh()
    followed(folder)
    collect(index_of(folder), first=106, needs={})
    (folder / segment_name(101)).create(encode_segment(STRAY))
    assert [s.number for s in late.refresh()] == [106, 107, 108]


def test_orphans_go_when_their_number_is_made(folder: Place) -> None:
    first = writer_of(folder, "one")
    mine, never = first.part_name(0), first.part_name(1)
    rest = b"beside"
    for name in (mine, never):
        (folder / name).create(rest)
    assert remove_orphans(folder) == []
    part = part_of(7, rest, rows=1, schema_version=1, offset=0, file=mine)
    made = first.append(end="1", parts=[part])
    (folder / f".{segment_name(102)}.0a").create("half")
    (folder / first.part_name(0)).create("of the next")
    assert remove_orphans(folder) == sorted([never, f".{segment_name(102)}.0a"])
    assert read_rows(folder, made, part) == rest
    writer_of(folder, "two")
    assert remove_orphans(folder) == [f"{103:012d}.0.part"]
    collect(index_of(folder), first=103, needs={})
    left = sorted(name for name in folder.names() if name != ".lock")
    assert left == [segment_name(103), "beginning.json"]


def test_what_a_dead_collector_left_goes(
    folder: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = followed(folder)
    monkeypatch.setattr(ChainIndex, "files_before", lambda index, number: [])
    collect(index, first=105, needs={})
    assert segment_name(103) in folder.names()
    assert remove_orphans(folder) == [segment_name(n) for n in range(101, 105)]
    assert index_of(folder).about(7, after=0) == [105, 107]
