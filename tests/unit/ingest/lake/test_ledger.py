"""The ledger: one line per epoch and table, of which the newest stay."""

from __future__ import annotations

import pytest

from ingest.contract.epochs import LedgerLine, Seal
from ingest.lake.epochs import last_epoch, write_seal
from ingest.lake.ledger import (
    MOST_LINES,
    drop_oldest_lines,
    is_accounted,
    knows,
    read_line,
    write_line,
)

COMMITTED = LedgerLine("committed", "i")


def test_the_first_line_of_an_epoch_in_a_table_stays(lake: str) -> None:
    assert write_line(lake, 7, 3, 1, COMMITTED)
    assert not write_line(lake, 7, 3, 1, LedgerLine("unchanged"))
    assert write_line(lake, 7, 3, 2, LedgerLine("deferred", reason="paused"))
    found = [read_line(lake, 7, 3, table) for table in (1, 2, 3)]
    assert found == [COMMITTED, LedgerLine("deferred", reason="paused"), None]
    assert [is_accounted(lake, 7, 3, table) for table in (1, 2, 3)] == [1, 1, 0]
    assert [knows(lake, 7, epoch) for epoch in (2, 3, 4)] == [0, 1, 0]
    assert last_epoch(lake, 7) == 3


def test_the_oldest_lines_go_but_those_of_sealed_epochs(
    lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.lake.ledger.MOST_LINES", 3)
    assert MOST_LINES > 3
    write_seal(lake, Seal(7, 2, "a", "b", (), {"1": 1}))
    for epoch in range(1, 7):
        write_line(lake, 7, epoch, 1, COMMITTED)
        drop_oldest_lines(lake, 7)
    assert all(knows(lake, 7, epoch) for epoch in range(1, 7))
    write_line(lake, 7, 7, 1, COMMITTED)
    drop_oldest_lines(lake, 7)
    assert [e for e in range(1, 8) if knows(lake, 7, e)] == [2, 5, 6, 7]
    assert last_epoch(lake, 7) == 7
