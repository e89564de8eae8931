"""Epochs: numbers, seals and lines of the ledger, with their versioned codecs.

A seal closes an epoch and is the only thing apply believes. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from core.errors import InvalidRequest, TerminalError
from ingest.contract import members

INDEX_BITS = 24
MAX_INDEX = (1 << INDEX_BITS) - 1
MAX_EPOCH = (1 << (63 - INDEX_BITS)) - 1
VERSION = 1

REPLACED = "replaced by a load"

T = TypeVar("T")

TableOutcome = Literal["committed", "unchanged", "deferred"]


def seq_of(epoch: int, index: int) -> int:
    """`_sluice_seq`: numeric, monotone, independent of the source's own order.

    index 0 is a load's row, changes start at 1.
    """
    if not 0 <= epoch <= MAX_EPOCH:
        raise InvalidRequest(f"epoch {epoch} does not fit into _sluice_seq")
    if not 0 <= index <= MAX_INDEX:
        raise InvalidRequest(f"index {index} does not fit into one epoch")
    return epoch << INDEX_BITS | index


@dataclass(frozen=True, slots=True)
class SealedColumn:
    """A column of a sealed file. bit: its place in the masks of unfit values, -1 when
    all values fit."""

    alias: str
    source_name: str
    type: str
    bit: int = -1


@dataclass(frozen=True, slots=True)
class SealedFile:
    """A file of change events: path relative to the epoch's directory.

    sha256       of its parts; "" = it has none
    unfit        rows with a value that has no form in the lake
    unique_keys  no key occurs twice: the source guarantees it
    columns      what it holds; () = it has no rows
    has_changes  each row says what happened (`op`) and where in the epoch (`i`), keys
                 may occur more than once; else all rows are there, as they are now
    """

    table_id: int
    path: str
    rows: int
    bytes: int
    sha256: str = ""
    unfit: int = 0
    unique_keys: bool = False
    columns: tuple[SealedColumn, ...] = ()
    has_changes: bool = False


@dataclass(frozen=True, slots=True)
class Seal:
    """An epoch of one table is what its seal says, byte for byte.

    start, end       source positions (`ingest.contract.positions`)
    schema_versions  table id → schema version its rows were written with
    """

    source: int
    epoch: int
    start: str
    end: str
    files: tuple[SealedFile, ...]
    schema_versions: Mapping[str, int] = field(default_factory=dict)
    job_id: str = ""

    @property
    def tables(self) -> tuple[int, ...]:
        return tuple(int(table) for table in self.schema_versions)

    def files_for(self, table_id: int) -> tuple[SealedFile, ...]:
        return tuple(f for f in self.files if f.table_id == table_id)

    def rows_for(self, table_id: int) -> int:
        return sum(f.rows for f in self.files_for(table_id))


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """What an epoch became in its table."""

    state: TableOutcome
    instant: str = ""
    reason: str = ""


def encode(value: Seal | LedgerLine) -> str:
    return members.encode(value, version=VERSION)


def decode_seal(text: str) -> Seal:
    """TerminalError `seal_damaged`, or `seal_too_new` for one of a newer version."""
    return _decoded(Seal, text, "seal")


def decode_ledger_line(text: str) -> LedgerLine:
    """TerminalError `ledger_line_damaged`, or `ledger_line_too_new`."""
    return _decoded(LedgerLine, text, "ledger line")


def _decoded(kind: type[T], text: str, what: str) -> T:
    try:
        return members.decode(kind, text, newest=VERSION)
    except members.TooNew as error:
        raise TerminalError(
            f"a {what} in the lake has {error}. Nothing was changed",
            code=f"{what.replace(' ', '_')}_too_new",
            hint="run this table with the release that wrote it, or a newer one",
        ) from error
    except ValueError as error:
        raise TerminalError(
            f"a {what} in the lake is damaged: {error}. Nothing was changed",
            code=f"{what.replace(' ', '_')}_damaged",
            hint="put the file back from a copy of the lake, or resync the table",
        ) from error
