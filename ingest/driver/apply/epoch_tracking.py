"""Which sealed epochs a lake table lacks, and what is left once it has them.

- a commit of the table says which epochs it has; only later ones are applied to it,
- then the ledger says so,
- then the events go, and all seals but the newest, which tells the position.

Every step may be cut off and is done again by the next apply of the table. It must not
know Spark, nor how events were captured or are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.errors import TerminalError
from ingest.contract.epochs import REPLACED, LedgerLine, Seal
from ingest.lake.epochs import (
    drop_events,
    drop_older_seals,
    epoch_folder,
    seals_after,
)
from ingest.lake.ledger import drop_oldest_lines, is_accounted, write_line


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
    refuse_lost_events(table, seals)
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
    its = EpochTable(table.lake, reached.source, table.table_id, table.name)
    for seal in lacking_seals(its, 0, newest=reached.epoch_to):
        if not is_accounted(table.lake, reached.source, seal.epoch, table.table_id):
            account(its, seal, _line_of(its, seal, reached))


def account(table: EpochTable, seal: Seal, line: LedgerLine) -> None:
    """What became of one epoch in the table, and what no reader needs from then on."""
    write_line(table.lake, table.source, seal.epoch, table.table_id, line)
    drop_events(table.lake, table.source, seal.epoch)
    drop_older_seals(table.lake, table.source, table.table_id, before=seal.epoch)
    drop_oldest_lines(table.lake, table.source)


def refuse_lost_events(table: EpochTable, seals: Sequence[Seal]) -> None:
    """TerminalError `events_lost` when an epoch of the table has its events no more:
    what comes later must not be written over the gap."""
    for seal in seals:
        folder = epoch_folder(table.lake, seal.source, seal.epoch)
        for file in seal.files_for(table.table_id):
            if file.rows and not (folder / file.path).exists():
                raise TerminalError(
                    f"epoch {seal.epoch} of {table.name} is sealed, but its events are"
                    " gone from the lake. Nothing was written",
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
