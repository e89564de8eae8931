"""Steps of apply that the state machine of the contract comes to too seldom."""

from __future__ import annotations

import pytest

from core.errors import TerminalError
from ingest.contract.epochs import Seal, SealedFile
from ingest.driver.apply.epoch_tracking import (
    EpochTable,
    Reached,
    give_up,
)
from ingest.lake.epochs import epoch_folder, shared_seals, write_seal
from ingest.lake.ledger import read_ledger_entry
from tests.unit.ingest.lake.applying import apply_epochs


def sealed(lake: str, epoch: int, **previous: int) -> Seal:
    """A shared epoch of tables t1, t2, … and the epoch before of each."""
    tables = [int(name[1:]) for name in previous]
    for table in tables:
        (epoch_folder(lake, 7, epoch) / str(table) / "part").replace("events")
    files = tuple(SealedFile(t, str(t), 1, 6) for t in tables)
    about = {str(t): 1 for t in tables}
    before = {name[1:]: epoch for name, epoch in previous.items()}
    seal = Seal(
        7, epoch, epoch, "a", "b", files, about, is_shared=True, previous=before
    )
    return write_seal(lake, seal)


def at(lake: str, table: int) -> EpochTable:
    return EpochTable(lake, 7, table, f"shop.t{table}")


def test_an_epoch_that_is_missing_is_not_written_over(lake: str) -> None:
    sealed(lake, 5, t1=3, t2=0)
    written: list[int] = []

    def write(seals: object) -> str:
        written.append(1)
        return "i"

    with pytest.raises(TerminalError, match=r"epoch 3 of shop\.t1 is gone") as caught:
        apply_epochs(at(lake, 1), Reached(7, 2, 2, "i2"), newest=5, write=write)
    assert caught.value.code == "events_lost"
    assert not written
    assert apply_epochs(at(lake, 1), Reached(7, 3, 3, "i3"), newest=5, write=write)
    assert apply_epochs(at(lake, 2), Reached(), newest=5, write=write)


def test_events_that_are_gone_are_missed_before_the_commit(lake: str) -> None:
    sealed(lake, 5, t1=0, t2=0)
    (epoch_folder(lake, 7, 5) / "1").delete_all()
    with pytest.raises(TerminalError, match="its events are gone"):
        apply_epochs(at(lake, 1), Reached(), newest=5, write=lambda _: "i")
    assert read_ledger_entry(lake, 7, 5) is None


def test_a_table_that_is_given_up_holds_nobody(lake: str) -> None:
    for epoch in (4, 5):
        sealed(lake, epoch, t1=0, t2=0)
        apply_epochs(at(lake, 1), Reached(), newest=epoch, write=lambda _: "i")
    assert epoch_folder(lake, 7, 4).exists()
    give_up(at(lake, 2), upto=9, reason="it has left")
    assert [seal.epoch for seal in shared_seals(lake, 7)] == [5]
    assert not epoch_folder(lake, 7, 4).exists()
    assert not epoch_folder(lake, 7, 5).exists()
    entry = read_ledger_entry(lake, 7, 5)
    assert entry is not None
    assert (entry.tables["2"].state, entry.tables["2"].reason) == (
        "deferred",
        "it has left",
    )


def test_an_epoch_without_rows_of_a_table_is_no_gap(lake: str) -> None:
    for epoch in (5, 6, 7):
        rows = {1: int(epoch != 6), 2: 1}
        for table in rows:
            (epoch_folder(lake, 7, epoch) / str(table) / "part").replace("events")
        files = tuple(SealedFile(t, str(t), n, 6) for t, n in rows.items() if n)
        before = {str(t): epoch - 1 if epoch > 5 else 0 for t in rows}
        about = {str(t): 1 for t in rows}
        write_seal(
            lake,
            Seal(
                7, epoch, epoch, "a", "b", files, about, is_shared=True, previous=before
            ),
        )
        if epoch < 7:
            # nothing is committed of an epoch without rows, so the table stays at 5
            at_5 = Reached(7, 5, 5, "i5") if epoch == 6 else Reached()
            apply_epochs(
                at(lake, 1),
                at_5,
                newest=epoch,
                write=lambda s: "i5" * (len(s[0].files) > 1),
            )
        reached = Reached(7, epoch - 1, epoch - 1, "i") if epoch > 5 else Reached()
        apply_epochs(at(lake, 2), reached, newest=epoch, write=lambda _: "i")
    # the seal of 6 went when both tables were accounted for
    assert [seal.epoch for seal in shared_seals(lake, 7)] == [7]
    found = apply_epochs(
        at(lake, 1), Reached(7, 5, 5, "i5"), newest=7, write=lambda _: "i7"
    )
    assert [seal.epoch for seal in found] == [7]
