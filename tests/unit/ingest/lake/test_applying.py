"""Which epochs a table lacks, and what is missed before anything is written."""

from __future__ import annotations

import pytest

from core.errors import TerminalError
from ingest.contract.epochs import Seal, SealedFile
from ingest.driver.apply.epoch_tracking import EpochTable, Reached
from ingest.lake.epochs import epoch_folder, seals_of, write_seal
from ingest.lake.ledger import read_line
from tests.unit.ingest.lake.applying import apply_epochs

TABLE = 1


def at(lake: str) -> EpochTable:
    return EpochTable(lake, 7, TABLE, "shop.t1")


def sealed(lake: str, epoch: int, *, rows: int = 1) -> None:
    (epoch_folder(lake, 7, epoch) / str(TABLE) / "part").replace("events")
    file = SealedFile(TABLE, str(TABLE), rows, 6)
    write_seal(lake, Seal(7, epoch, "a", "b", (file,), {str(TABLE): 1}))


def test_events_that_are_gone_are_missed_before_the_commit(lake: str) -> None:
    sealed(lake, 5)
    (epoch_folder(lake, 7, 5) / "1").delete_all()
    with pytest.raises(TerminalError, match="its events are gone") as caught:
        apply_epochs(at(lake), Reached(), newest=5, write=lambda _: "i")
    assert caught.value.code == "events_lost"
    assert read_line(lake, 7, 5, TABLE) is None


def test_what_a_load_replaced_is_accounted_for_by_the_next_apply(lake: str) -> None:
    sealed(lake, 4)
    sealed(lake, 6)
    reached = Reached(7, 5, 5, "load")
    found = apply_epochs(at(lake), reached, newest=6, write=lambda _: "i6")
    assert [seal.epoch for seal in found] == [6]
    lines = [read_line(lake, 7, epoch, TABLE) for epoch in (4, 6)]
    assert [line and line.state for line in lines] == ["deferred", "committed"]
    assert not epoch_folder(lake, 7, 4).exists()
    assert seals_of(lake, 7, 4) == []


def test_an_epoch_without_rows_is_unchanged(lake: str) -> None:
    sealed(lake, 5, rows=0)
    assert apply_epochs(at(lake), Reached(), newest=5, write=lambda _: "")
    line = read_line(lake, 7, 5, TABLE)
    assert line is not None
    assert line.state == "unchanged"
