"""Epochs: numbers, seals and ledger entries, with their versioned codecs.

A seal closes an epoch and is the only thing apply believes. Every value is written in
the lowest version that says what it says: a former release reads what it can read
right, and refuses the rest by name. Pure.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from core.errors import InvalidRequest, TerminalError
from ingest.contract.members import known_members, value_of, version_of

INDEX_BITS = 24
MAX_INDEX = (1 << INDEX_BITS) - 1
MAX_EPOCH = (1 << (63 - INDEX_BITS)) - 1
VERSION = 2

TAKEN_BACK = "taken back by a restore"
REPLACED = "replaced by a load"

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

    sha256       of its parts; "" = a former release did not say
    unfit        rows with a value that has no form in the lake
    unique_keys  no key occurs twice: the source guarantees it
    columns      what it holds; () = of a former release: those of the plan
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
    """An epoch is what its seal says, byte for byte.

    start, end       source positions, encoded (`ingest.contract.source_positions`)
    schema_versions  table id → schema version its rows were written with; the tables
                     that the epoch is about, each of which has to be accounted for
    is_shared        of a capture that follows many tables: one seal for all of them,
                     even when a single one changed
    previous         table id → the epoch before that was about it, 0 = none; a table
                     that is not there says nothing about it (cursors)
    """

    source: int
    epoch: int
    epoch_last: int
    start: str
    end: str
    files: tuple[SealedFile, ...]
    schema_versions: Mapping[str, int] = field(default_factory=dict)
    job_id: str = ""
    is_shared: bool = False
    previous: Mapping[str, int] = field(default_factory=dict)

    @property
    def tables(self) -> tuple[int, ...]:
        return tuple(int(table) for table in self.schema_versions)

    @property
    def is_of_one_table(self) -> bool:
        return len(self.schema_versions) == 1 and not self.is_shared

    def files_for(self, table_id: int) -> tuple[SealedFile, ...]:
        return tuple(f for f in self.files if f.table_id == table_id)

    def rows_for(self, table_id: int) -> int:
        return sum(f.rows for f in self.files_for(table_id))


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """What an epoch became in one table.

    epoch       which one, in a checkpoint; 0 = a former release did not say
    generation  how often the table had gone back behind the epoch when this was said
    """

    state: TableOutcome
    instant: str = ""
    reason: str = ""
    epoch: int = 0
    generation: int = 0


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What became of one epoch of a source: a line for each of its tables.

    is_checkpoint  it stands for all epochs up to its own
    generation     above 0: it brings nothing new, but says that its tables went back
                   to an older commit (the `instant` of their lines), and so what
                   became of their epochs behind `rewound_to`, up to its own, is void
    """

    source: int
    epoch: int
    tables: Mapping[str, LedgerLine]
    generation: int = 0
    is_checkpoint: bool = False
    rewound_to: int | None = None


def generation_of(rewinds: Iterable[LedgerEntry], epoch: int, table_id: int) -> int:
    """How often the table went back behind the epoch."""
    return sum(_covers(one, epoch, str(table_id)) for one in rewinds)


def as_it_stands(entry: LedgerEntry, rewinds: Iterable[LedgerEntry]) -> LedgerEntry:
    """The entry with what rewinds made void as `deferred`."""
    rewinds = tuple(rewinds)
    lines = {
        table: LedgerLine("deferred", reason=TAKEN_BACK)
        if _is_void(line, line.epoch or entry.epoch, table, entry, rewinds)
        else line
        for table, line in entry.tables.items()
    }
    return dataclasses.replace(entry, tables=lines)


def _is_void(
    line: LedgerLine,
    epoch: int,
    table: str,
    entry: LedgerEntry,
    rewinds: tuple[LedgerEntry, ...],
) -> bool:
    if entry.is_checkpoint and not line.epoch:
        # a former release: the line may be from any epoch before
        backs = (r.tables[table] for r in rewinds if table in r.tables)
        later = (r.epoch for r in rewinds if table in r.tables)
        return any(
            entry.epoch <= last and line.instant > back.instant
            for last, back in zip(later, backs, strict=True)
        )
    return line.generation < sum(_covers(one, epoch, table) for one in rewinds)


def _covers(rewind: LedgerEntry, epoch: int, table: str) -> bool:
    behind = rewind.rewound_to
    return (
        table in rewind.tables and behind is not None and behind < epoch <= rewind.epoch
    )


def encode(value: Seal | LedgerEntry) -> str:
    data = {**dataclasses.asdict(value), "v": _version_needed(value)}
    return json.dumps(data, separators=(",", ":"), sort_keys=True)


def _version_needed(value: Seal | LedgerEntry) -> int:
    """2 when a release that knows version 1 only would read it wrong."""
    if isinstance(value, Seal):
        is_new = value.is_shared or any(f.has_changes for f in value.files)
        return 2 if is_new else 1
    return 2 if any(line.generation for line in value.tables.values()) else 1


def decode_seal(text: str) -> Seal:
    """TerminalError `seal_damaged`, or `seal_too_new` for one of a newer version."""
    data = _decoded(text, "seal")
    try:
        files = tuple(_sealed_file(f) for f in data["files"])
        return Seal(**{**known_members(Seal, data), "files": files})
    except (KeyError, TypeError, AttributeError) as error:
        raise _damaged("seal", error) from error


def _sealed_file(data: Mapping[str, Any]) -> SealedFile:
    columns = tuple(value_of(SealedColumn, c) for c in data.get("columns", ()))
    return SealedFile(**{**known_members(SealedFile, data), "columns": columns})


def decode_ledger_entry(text: str) -> LedgerEntry:
    """TerminalError `ledger_entry_damaged`, or `ledger_entry_too_new`."""
    data = _decoded(text, "ledger entry")
    try:
        lines = {k: value_of(LedgerLine, line) for k, line in data["tables"].items()}
        return LedgerEntry(**{**known_members(LedgerEntry, data), "tables": lines})
    except (KeyError, TypeError, AttributeError) as error:
        raise _damaged("ledger entry", error) from error


def _decoded(text: str, what: str) -> dict[str, Any]:
    try:
        data = dict(json.loads(text))
        version = version_of(data)
    except (ValueError, TypeError) as error:
        raise _damaged(what, error) from error
    if version > VERSION:
        raise TerminalError(
            f"a {what} in the lake has version {version}, this release reads versions"
            f" up to {VERSION}. Nothing was changed",
            code=f"{what.replace(' ', '_')}_too_new",
            hint="run this table with the release that wrote it, or a newer one",
        )
    return data


def _damaged(what: str, error: Exception) -> TerminalError:
    return TerminalError(
        f"a {what} in the lake is damaged: {error}. Nothing was changed",
        code=f"{what.replace(' ', '_')}_damaged",
        hint="put the file back from a copy of the lake, or resync the table",
    )
