"""The ledger: one line per epoch, table and generation, and what becomes of them."""

from __future__ import annotations

import pytest

from ingest.contract.epochs import LedgerEntry, LedgerLine, Seal, encode
from ingest.lake.epochs import drop_seal, last_epoch, seals_of, write_seal
from ingest.lake.ledger import (
    CHECKPOINT_ENTRIES,
    checkpoint_ledger,
    checkpoint_when_long,
    forget_later,
    is_accounted,
    look,
    read_ledger_entry,
    write_line,
)
from ingest.lake.place import place_at
from tests.unit.ingest.lake.checkpoints import read_checkpoint

COMMITTED = LedgerLine("committed", "i")


def seal(epoch: int, *tables: int, is_shared: bool = False) -> Seal:
    about = {str(table): 1 for table in tables}
    return Seal(7, epoch, epoch, "a", "b", (), about, is_shared=is_shared)


def commit(lake: str, epoch: int, table: int) -> bool:
    return write_line(lake, 7, epoch, table, LedgerLine("committed", f"i{epoch}"))


def states(lake: str, epoch: int) -> dict[str, str]:
    entry = read_ledger_entry(lake, 7, epoch)
    return {t: line.state for t, line in entry.tables.items()} if entry else {}


def checkpoint(lake: str, epoch: int) -> dict[str, str]:
    made = read_checkpoint(lake, 7, epoch)
    return {table: line.instant or line.state for table, line in made.tables.items()}


def names(lake: str) -> set[str]:
    return set((place_at(lake) / "_sluice" / "ledger" / "7").names())


def test_the_ledger_keeps_the_first_line_of_each_table(lake: str) -> None:
    assert write_line(lake, 7, 3, 1, COMMITTED)
    assert not write_line(lake, 7, 3, 1, LedgerLine("unchanged"))
    assert write_line(lake, 7, 3, 2, LedgerLine("deferred", reason="paused"))
    assert states(lake, 3) == {"1": "committed", "2": "deferred"}
    assert read_ledger_entry(lake, 7, 4) is None
    ledger = look(lake, 7)
    known = [ledger.is_accounted(3, table) for table in (1, 2, 3)]
    assert (known, ledger.knows(3), ledger.knows(4)) == (
        [True, True, False],
        True,
        False,
    )


def test_a_checkpoint_keeps_the_last_line_of_each_table(lake: str) -> None:
    for epoch, table in ((1, 1), (2, 2), (3, 1), (9, 2)):
        commit(lake, epoch, table)
    checkpoint_ledger(lake, 7, upto=5)
    checkpoint_ledger(lake, 7, upto=5)
    assert checkpoint(lake, 5) == {"1": "i3", "2": "i2"}
    assert read_ledger_entry(lake, 7, 5) is None
    assert read_ledger_entry(lake, 7, 3) is None
    assert read_ledger_entry(lake, 7, 9) is not None


def test_a_checkpoint_leaves_the_name_of_an_epoch_in_flight(lake: str) -> None:
    """A load that holds epoch 5 while others make a checkpoint up to it goes on."""
    commit(lake, 3, 1)
    commit(lake, 4, 1)
    checkpoint_ledger(lake, 7, upto=5)
    assert not is_accounted(lake, 7, 5, 2)
    assert last_epoch(lake, 7) == 5
    assert commit(lake, 5, 2)
    assert states(lake, 5) == {"2": "committed"}
    # one of an epoch before is no newer than what the checkpoint has
    assert commit(lake, 2, 1)
    checkpoint_ledger(lake, 7, upto=6)
    assert checkpoint(lake, 6) == {"1": "i4", "2": "i5"}


def test_a_checkpoint_leaves_epochs_that_are_sealed(lake: str) -> None:
    """A table that lags keeps an epoch; what is said of the others in it is asked for,
    or their events would be taken for owed again."""
    for epoch in (1, 2, 3):
        commit(lake, epoch, 1)
    lagging = write_seal(lake, seal(2, 1, 2, is_shared=True))
    checkpoint_ledger(lake, 7, upto=3)
    assert is_accounted(lake, 7, 2, 1)
    assert checkpoint(lake, 3) == {"1": "i3"}
    commit(lake, 2, 2)
    drop_seal(lake, lagging)
    checkpoint_ledger(lake, 7, upto=3)
    assert checkpoint(lake, 3) == {"1": "i3", "2": "i2"}
    assert names(lake) == {"000000000003.c.json"}


def test_a_long_ledger_is_merged(lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.lake.ledger.CHECKPOINT_ENTRIES", 3)
    assert CHECKPOINT_ENTRIES > 3
    for epoch in (1, 2, 3, 4):
        write_seal(lake, seal(epoch, 1, 2, is_shared=True))
        commit(lake, epoch, 1)
    checkpoint_when_long(lake, 7, upto=4)
    assert len(names(lake)) == 4, "all of them are still asked for"
    for epoch in (1, 2, 3, 4):
        drop_seal(lake, seal(epoch, 1, 2, is_shared=True))
    checkpoint_when_long(lake, 7, upto=4)
    assert names(lake) == {"000000000004.c.json"}


def test_a_checkpoint_of_a_former_release_is_read(lake: str) -> None:
    old = LedgerEntry(7, 5, {"1": LedgerLine("committed", "i4")}, is_checkpoint=True)
    ledger = place_at(lake) / "_sluice" / "ledger" / "7"
    (ledger / "000000000005.json").replace(encode(old))
    assert read_checkpoint(lake, 7, 5) == old
    assert not is_accounted(lake, 7, 5, 1)
    assert not look(lake, 7).knows(5)
    assert commit(lake, 5, 2)
    assert not commit(lake, 5, 2)
    assert states(lake, 5) == {"2": "committed"}
    assert read_checkpoint(lake, 7, 5) == old
    checkpoint_ledger(lake, 7, upto=5)
    assert checkpoint(lake, 5) == {"1": "i4", "2": "i5"}
    assert len(ledger.names()) == 1


def test_what_a_table_went_back_behind_is_void_and_its_epochs_stay_used(
    lake: str,
) -> None:
    for epoch, table in ((1, 1), (2, 2), (3, 1), (4, 1), (5, 2)):
        commit(lake, epoch, table)
        write_seal(lake, seal(epoch, table))
    for _ in range(2):
        forget_later(lake, 7, 1, after=1, instant="i1")
    assert sum(".g" in name for name in names(lake)) == 1
    assert [bool(seals_of(lake, 7, e)) for e in range(1, 6)] == [1, 1, 0, 0, 1]
    forget_later(lake, 7, 2, after=2, instant="i2")
    found = [next(iter(states(lake, e).values())) for e in range(1, 6)]
    assert found == ["committed", "committed", *["deferred"] * 3]
    # the next epoch is a new one, and nothing later is touched
    assert last_epoch(lake, 7) == 5
    assert look(lake, 7).knows(3)
    commit(lake, 6, 1)
    assert states(lake, 6) == {"1": "committed"}
    # a checkpoint keeps what holds, and goes back with a table, too
    for epoch in (1, 2):
        drop_seal(lake, seal(epoch, epoch))
    checkpoint_ledger(lake, 7, upto=5)
    assert len(names(lake)) == 2
    assert checkpoint(lake, 5) == {"1": "i1", "2": "i2"}
    forget_later(lake, 7, 2, after=1, instant="i0")
    assert checkpoint(lake, 5) == {"1": "i1", "2": "deferred"}


def test_a_table_that_went_back_is_accounted_for_anew(lake: str) -> None:
    """As often as it goes back, and whatever is merged between."""
    for epoch in (1, 2, 3):
        write_seal(lake, seal(epoch, 1, 2, is_shared=True))
        commit(lake, epoch, 1)
    for again in (1, 2):
        forget_later(lake, 7, 1, after=1, instant="i1")
        assert [is_accounted(lake, 7, e, 1) for e in (1, 2, 3)] == [True, False, False]
        assert states(lake, 2) == {"1": "deferred"}
        assert write_line(lake, 7, 2, 1, LedgerLine("committed", f"again {again}"))
        assert not write_line(lake, 7, 2, 1, LedgerLine("unchanged"))
        assert states(lake, 2) == {"1": "committed"}
        checkpoint_ledger(lake, 7, upto=3)
        assert [is_accounted(lake, 7, e, 1) for e in (1, 2, 3)] == [True, True, False]
    drop_seal(lake, seal(3, 1, 2, is_shared=True))
    drop_seal(lake, seal(2, 1, 2, is_shared=True))
    drop_seal(lake, seal(1, 1, 2, is_shared=True))
    checkpoint_ledger(lake, 7, upto=3)
    assert checkpoint(lake, 3) == {"1": "again 2"}
    assert names(lake) == {"000000000003.c.json"}
    # the rewinds went with what they made void: a later one counts from the beginning
    forget_later(lake, 7, 1, after=1, instant="i1")
    assert checkpoint(lake, 3) == {"1": "deferred"}
