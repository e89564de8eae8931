"""Changes of one table, read from its stream by tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import StaleState
from ingest.contract.segments import Control
from ingest.lake import changes
from ingest.lake.chain import (
    ChainIndex,
    begin_stream,
    collect,
    stream_folder,
    take_over,
)
from ingest.lake.changes import ChangePage, Mark, read_changes
from ingest.lake.segment_files import SegmentBuilder
from tests.doubles.log_source import Row, batch_of

TABLE, OTHER = 1, 2


class Log:
    """A stream: its first segment takes over, its second has the cut of a load."""

    def __init__(self, lake: Path) -> None:
        self.folder = stream_folder(str(lake), "pg1")
        begin_stream(self.folder, above=0)
        writer = take_over(self.folder, stream="pg1", writer="w", server="s", begin="0")
        self.builder = SegmentBuilder(writer)
        self.close(Control("cut", TABLE, load="L"), Control("cut", OTHER, load="M"))

    def add(self, *ids: int, table: int = TABLE, op: str = "insert") -> None:
        rows = [(1, Row("t", op, one, f"v{one}")) for one in ids]
        self.builder.add(table, 1, batch_of(rows))

    def close(self, *controls: Control) -> int:
        end = str(self.builder.writer.next_number)
        return self.builder.close(end=end, controls=controls, committed=5).number

    def read(self, after: Mark, *, most: int = 99, until: int = 99) -> ChangePage:
        return read_changes(self.folder, TABLE, after, until=until, most=most)

    def collect(self, first: int) -> None:
        index = ChainIndex(self.folder, "pg1")
        while index.refresh():
            pass
        collect(index, first=first, needs={})


def ids(page: ChangePage) -> list[int]:
    return [change.values["id"] for change in page.changes]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Rows of the table in segments 3 (of two schemas), 5 and 6."""
    made = Log(tmp_path)
    made.add(1, 2)
    made.builder.spill_bytes = 0  # the parts lie in files of their own
    made.add(3)
    made.builder.spill_bytes = 1 << 20
    made.add(4)
    made.close()
    made.add(9, table=OTHER)
    made.close()
    made.add(5, op="delete")
    made.close()
    made.add(6)
    made.close()
    return made


def test_each_change_comes_once_and_in_order_wherever_a_page_ends(log: Log) -> None:
    for most in (1, 2, 3, 4, 99):
        mark, found = Mark(2, "L"), []
        while not (page := log.read(mark, most=most)).is_last or page.changes:
            found += ids(page)
            mark = page.after
        assert found == [1, 2, 3, 4, 5, 6]
    # and so behind each change
    every = log.read(Mark(2, "L")).changes
    for number, change in enumerate(every):
        assert ids(log.read(change.after)) == [1, 2, 3, 4, 5, 6][number + 1 :]
    assert [change.op for change in every][3:5] == ["insert", "delete"]
    assert every[4].segment.end == "5"


def test_a_page_ends_where_the_lake_is_and_where_it_is_large_enough(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = log.read(Mark(2, "L"), until=4)
    assert (ids(page), page.after, page.is_last) == ([1, 2, 3, 4], Mark(4, "L"), True)
    monkeypatch.setattr(changes, "MOST_BYTES", 5)
    page = log.read(Mark(2, "L"))
    assert (ids(page), page.is_last) == ([1, 2, 3], False)
    monkeypatch.setattr(changes, "MOST_SEGMENTS", 1)
    page = log.read(Mark(3, "L"))
    assert (ids(page), page.after, page.is_last) == ([], Mark(4, "L"), False)


def test_what_is_gone_is_refused_and_not_passed_over(log: Log) -> None:
    log.collect(5)
    assert ids(log.read(Mark(3, "L"))) == [5, 6]
    inside = Mark(2, "L", rows=3)
    for gone in (Mark(2, "L"), inside):
        with pytest.raises(StaleState) as refused:
            log.read(gone)
        assert refused.value.code == "changes_collected"
    # the last row of a segment is behind all of it
    log.collect(6)
    assert ids(log.read(Mark(5, "L"))) == [6]
    with pytest.raises(StaleState, match="load replaced"):
        log.read(Mark(3, "K"))


@pytest.mark.parametrize(
    ("control", "code"),
    [
        (Control("cut", TABLE, load="N"), "changes_replaced"),
        (Control("deferred", TABLE, reason="the slot is lost"), "changes_missing"),
        (Control("removed", TABLE), "changes_missing"),
    ],
)
def test_nothing_goes_on_behind_a_break(log: Log, control: Control, code: str) -> None:
    number = log.close(control)
    log.add(7)
    log.close()
    page = log.read(Mark(4, "L"))
    assert ids(page) == [5, 6], "what was before comes first"
    with pytest.raises(StaleState) as refused:
        log.read(page.after)
    assert refused.value.code == code
    log.collect(number + 1)
    with pytest.raises(StaleState) as refused:
        log.read(page.after)
    assert refused.value.code == code
    # of another table, or of the same load, is none
    log.close(Control("cut", OTHER, load="N"))
    assert ids(log.read(Mark(number, "N"))) == [7]
