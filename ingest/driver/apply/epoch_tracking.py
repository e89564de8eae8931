"""Which sealed epochs a lake table lacks, and what is left once it has them.

One table is brought up to date at a time, by the holder of its lease; the others of an
epoch come when they come. So events, seals and ledger are kept by these rules:

- a commit of the table says which epochs it has; only later ones are applied to it,
- then the ledger says so, per epoch and table,
- the events of an epoch go when each of its tables is accounted for, then its seal;
  the newest stays and tells the position.

Every step may be cut off and is done again by the next apply of any of the tables. It
must not know Spark, nor how events were captured or are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.errors import TerminalError
from ingest.contract.epochs import REPLACED, LedgerLine, Seal
from ingest.lake.epochs import (
    drop_events,
    drop_older_seals,
    drop_seal,
    epoch_folder,
    seals_after,
    shared_seals,
)
from ingest.lake.ledger import checkpoint_when_long, look, read_ledger_entry, write_line


@dataclass(frozen=True, slots=True)
class Reached:
    """The last commit of a table: the epochs that it brought, and its instant.

    source  whose epochs; 0 = of a lake that was adopted from elsewhere
    """

    source: int = 0
    epoch_from: int = 0
    epoch_to: int = 0
    instant: str = ""


@dataclass(frozen=True, slots=True)
class EpochTable:
    """A lake table as its epochs know it."""

    lake: str
    source: int
    table_id: int
    name: str


def epochs_to_apply(
    table: EpochTable, reached: Reached, *, newest: int
) -> tuple[Seal, ...]:
    """The sealed epochs up to `newest` that the table lacks, in order. What an apply
    that was cut off left unaccounted is accounted for first.

    TerminalError `events_lost` when the events of one of them are gone."""
    settle(table, reached)
    seals = lacking_seals(table, reached.epoch_to, newest=newest)
    refuse_lost_events(table, reached.epoch_to, seals)
    return seals


def account_for(table: EpochTable, seals: Sequence[Seal], instant: str) -> None:
    """Records that the commit at `instant` ("" = there was nothing to write) has these
    epochs, and removes their events."""
    for seal in seals:
        has_rows = bool(instant and seal.rows_for(table.table_id))
        line = LedgerLine("committed", instant) if has_rows else LedgerLine("unchanged")
        account(table, seal, line)


def lacking_seals(table: EpochTable, applied: int, *, newest: int) -> tuple[Seal, ...]:
    found = seals_after(
        table.lake, table.source, applied, upto=newest, table_id=table.table_id
    )
    return tuple(found)


def settle(table: EpochTable, reached: Reached) -> None:
    """Accounts for epochs whose writer died between its commit and the ledger, and for
    those that a load made void."""
    if not reached.source:
        return
    ledger = look(table.lake, reached.source)
    its = EpochTable(table.lake, reached.source, table.table_id, table.name)
    for seal in lacking_seals(its, 0, newest=reached.epoch_to):
        if not ledger.is_accounted(seal.epoch, table.table_id):
            account(its, seal, _line_of(its, seal, reached))
    collect(its)


def give_up(table: EpochTable, *, upto: int, reason: str) -> None:
    """The table will not be brought up by these epochs any more: it is loaded anew, or
    has left. Others need not wait for it."""
    for seal in lacking_seals(table, 0, newest=upto):
        account(table, seal, LedgerLine("deferred", reason=reason))


def account(table: EpochTable, seal: Seal, line: LedgerLine) -> None:
    """What became of one epoch in the table, and what no reader needs from then on."""
    write_line(table.lake, table.source, seal.epoch, table.table_id, line)
    if seal.is_of_one_table:
        drop_events(table.lake, table.source, seal.epoch)
        drop_older_seals(table.lake, table.source, table.table_id, before=seal.epoch)
    else:
        collect(table)
    checkpoint_when_long(table.lake, table.source, upto=seal.epoch - 1)


def collect(table: EpochTable) -> None:
    """Removes the events of shared epochs all of whose tables are accounted for, and
    then their seals but the newest."""
    seals = shared_seals(table.lake, table.source)
    if not seals:
        return
    # looked at after the seals were listed: a line is never older than its seal
    ledger = look(table.lake, table.source)
    for seal in seals:
        if all(ledger.is_accounted(seal.epoch, one) for one in seal.tables):
            # after a death here the seal leads the next job to what is left
            is_gone = drop_events(table.lake, table.source, seal.epoch)
            if is_gone and seal is not seals[-1]:
                drop_seal(table.lake, seal)


def refuse_lost_events(table: EpochTable, applied: int, seals: Sequence[Seal]) -> None:
    """TerminalError `events_lost` when an epoch of the table is missing or its events
    are: what comes later must not be written over the gap."""
    before = applied
    for seal in seals:
        behind = seal.previous.get(str(table.table_id), 0)
        if behind > before and not _had_nothing(table, seal.source, behind):
            raise _lost(table, f"epoch {behind} of {table.name} is gone")
        before = seal.epoch
        folder = epoch_folder(table.lake, seal.source, seal.epoch)
        for file in seal.files_for(table.table_id):
            if file.rows and not (folder / file.path).exists():
                what = f"epoch {seal.epoch} of {table.name} is sealed, but its events"
                raise _lost(table, f"{what} are gone")


def _had_nothing(table: EpochTable, source: int, epoch: int) -> bool:
    """No commit says that a table has an epoch without its rows; the ledger does."""
    entry = read_ledger_entry(table.lake, source, epoch)
    line = entry.tables.get(str(table.table_id)) if entry else None
    return line is not None and line.state == "unchanged"


def _lost(table: EpochTable, what: str) -> TerminalError:
    return TerminalError(
        f"{what} from the lake. Nothing was written",
        code="events_lost",
        hint="resync the table",
        facts={"table": table.table_id},
    )


def _line_of(table: EpochTable, seal: Seal, reached: Reached) -> LedgerLine:
    if not seal.rows_for(table.table_id):
        return LedgerLine("unchanged")
    if reached.epoch_from <= seal.epoch <= reached.epoch_to and reached.instant:
        return LedgerLine("committed", reached.instant)
    return LedgerLine("deferred", reason=REPLACED)
