"""Old segments give way to the rows of the tables that need them, in their own files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.contract.segments import Control, encode_segment
from ingest.lake import chain, folding
from ingest.lake.chain import (
    ChainIndex,
    begin_stream,
    collect,
    read_beginning,
    read_kept,
    read_rows,
    remove_orphans,
    segment_name,
    stream_folder,
    take_over,
)
from ingest.lake.folding import Folder
from ingest.lake.port import Place
from tests.unit.ingest.lake.test_chain import STRAY, write

LAST = 112


@pytest.fixture
def folder(lake: str, monkeypatch: pytest.MonkeyPatch) -> Place:
    """7 and 8 were cut at 102; 7 has rows in 103, 106, 109 and 112, 8 in all others."""
    monkeypatch.setattr(folding, "LEAST_SEGMENTS", 4)
    made = stream_folder(lake, "pg")
    begin_stream(made, above=100)
    writer = take_over(made, stream="pg", writer="one", server="a", begin="0")
    write(writer, "1", controls=[Control("cut", 7), Control("cut", 8)])
    for number in range(103, LAST + 1):
        more = [7] if number % 3 == 1 else [8] * 3
        write(writer, str(number), *more)
    return made


def index_of(folder: Place) -> ChainIndex:
    index = ChainIndex(folder, "pg")
    while index.refresh():
        pass
    return index


def fold_all(folder: Place, needs: dict[int, int]) -> ChainIndex:
    index = index_of(folder)
    collect(index, first=index.needed_from(needs), needs=needs)
    index.refresh()
    folds = Folder(index)
    while folds.fold(needs, before=LAST):
        index.refresh()
    return index


def rows_of(index: ChainIndex, table: int, after: int = 0) -> list[bytes]:
    found = []
    for number in index.about(table, after=after):
        segment = index.segment(table, number)
        assert segment is not None
        found += [
            read_rows(index.folder, segment, part) for part in segment.parts_of(table)
        ]
    return found


def test_what_few_tables_need_is_kept_without_the_rest(folder: Place) -> None:
    before = index_of(folder)
    found = rows_of(before, 7)
    index = fold_all(folder, {7: 102, 8: LAST - 1})
    assert read_beginning(folder).number == 111
    names = sorted(n for n in folder.names() if n.endswith((".seg", ".fold")))
    assert names == [
        segment_name(111),
        segment_name(112),
        "7.000000000103-000000000106.fold",
        "7.000000000107-000000000109.fold",
    ]
    for one in (index, index_of(folder), before):
        one.refresh()
        assert one.about(7, after=0) == [103, 106, 109, 112]
        assert one.about(7, after=103) == [106, 109, 112]
        assert one.about(7, after=110) == [112]
        assert [one.waiting(7, after=n) for n in (0, 103, 109, 110, 112)] == [
            (103, 4),
            (106, 3),
            (112, 1),
            (112, 1),
            (0, 0),
        ]
        assert rows_of(one, 7) == found
        assert rows_of(one, 7, after=106) == found[2:]
        assert not one.is_lost(7, 102)
        assert one.is_lost(8, 109)
        assert one.is_lost(8, 0)
        assert not one.is_lost(8, 110)
        assert one.tables()[7] == before.tables()[7]
    segment = index.segment(7, 106)
    assert segment is not None
    assert (segment.start, segment.end) == ("105", "106")
    kept = read_kept(folder, 7, 106)
    assert kept == segment


def test_a_fold_goes_when_its_table_has_applied_it(folder: Place) -> None:
    index = fold_all(folder, {7: 102})
    late = index_of(folder)
    collect(index, first=111, needs={7: 106})
    assert [n for n in folder.names() if n.endswith(".fold")] == [
        "7.000000000107-000000000109.fold"
    ]
    index.refresh()
    assert index.about(7, after=106) == [109, 112]
    assert index.is_lost(7, 105)
    assert not index.is_lost(7, 106)
    # who has not heard of it yet finds out when it reads
    assert late.about(7, after=102)[0] == late.waiting(7, after=102)[0] == 106
    assert late.segment(7, 106) is None
    collect(index, first=111, needs={})
    index.refresh()
    assert not [n for n in folder.names() if n.endswith(".fold")]
    assert index.is_lost(7, 108)
    assert read_kept(folder, 7, 106) is None


def test_segments_that_are_needed_for_the_most_part_stay(folder: Place) -> None:
    fold_all(folder, {7: 102, 8: 102})
    assert read_beginning(folder).number == 103
    assert (folder / segment_name(103)).exists()


@pytest.mark.parametrize("at", ["rows", "beginning", "segments"])
def test_a_death_anywhere_loses_nothing(
    folder: Place, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    found = rows_of(index_of(folder), 7)

    class Killed(BaseException):
        pass

    def die(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        if at == "rows":
            patched.setattr(folding, "fold", die)
        elif at == "beginning":
            patched.setattr(chain, "encode_beginning", die)
        else:
            patched.setattr(ChainIndex, "files_before", die)
        with pytest.raises(Killed):
            fold_all(folder, {7: 103})
    assert rows_of(index_of(folder), 7, after=103) == found[1:]
    remove_orphans(folder)
    assert rows_of(index_of(folder), 7, after=103) == found[1:]
    again = fold_all(folder, {7: 103})
    assert rows_of(again, 7, after=103) == found[1:]
    collect(again, first=LAST, needs={})
    remove_orphans(folder)
    left = [n for n in folder.names() if n.endswith((".seg", ".fold"))]
    assert left == [segment_name(LAST)]


def test_a_second_collector_folds_nothing_of_what_moved(folder: Place) -> None:
    """What it read may be the file of a stopped writer."""
    found = rows_of(index_of(folder), 7)
    late = index_of(folder)
    fold_all(folder, {7: 102})
    (folder / segment_name(103)).create(encode_segment(STRAY))
    before = read_beginning(folder)
    assert not Folder(late).fold({7: 102}, before=LAST)
    assert read_beginning(folder) == before
    # it had read them all, and stood still before it named its folds
    assert chain.fold(late, end=107, lasts={7: 106})
    assert read_beginning(folder) == before
    assert rows_of(index_of(folder), 7) == found


def test_folds_of_a_dead_collector_go_when_they_can_not_be_named(
    folder: Place, tmp_path: Path
) -> None:
    name = "7.000000000103-000000000106.fold"
    (folder / name).create("x")
    assert remove_orphans(folder) == []
    collect(index_of(folder), first=106, needs={})
    assert remove_orphans(folder) == []
    collect(index_of(folder), first=107, needs={})
    assert remove_orphans(folder) == [name]
