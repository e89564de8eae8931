"""What became of each epoch in each table, as files of the lake.

`_sluice/ledger/<source>/<epoch>.<table>.json` is the line of one table, and
`<epoch>.<table>.r<n>.json` the one after it went back behind that epoch n times.
`<epoch>.g<n>.json` says that a table went back: what was said before is void.
`<epoch>.c.json` is a checkpoint of the entries up to that epoch whose seals are gone.
Former releases wrote `<epoch>.json`, an entry or a checkpoint; it is read as before.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ingest.contract.epochs import (
    TAKEN_BACK,
    LedgerEntry,
    LedgerLine,
    as_it_stands,
    decode_ledger_entry,
    encode,
    generation_of,
)
from ingest.lake.epochs import (
    DIGITS,
    drop_seals_behind,
    epoch_in,
    last_epoch,
    ledger_folder,
    names_in,
    sealed_epochs,
)
from ingest.lake.port import Place

# So many entries that nothing needs one by one any more become one file.
CHECKPOINT_ENTRIES = 1_000


@dataclass(frozen=True, slots=True)
class Ledger:
    """One look at the ledger of a source. rewinds: in no order."""

    folder: Place
    source: int
    names: tuple[str, ...]
    rewinds: tuple[LedgerEntry, ...]

    def generation(self, epoch: int, table_id: int) -> int:
        return generation_of(self.rewinds, epoch, table_id)

    def is_accounted(self, epoch: int, table_id: int) -> bool:
        """Whether it is known what became of the epoch in the table as it is now."""
        generation = self.generation(epoch, table_id)
        if _name(epoch, table_id, generation) in self.names:
            return True
        if generation or f"{epoch:0{DIGITS}d}.json" not in self.names:
            return False
        former = _former(self.folder, epoch)
        return former is not None and str(table_id) in former.tables

    def has_line(self, table_id: int, *, after: int) -> bool:
        """Whether anything that holds is said of the table in later epochs."""
        epochs = {epoch_in(n) for n in self.names if _is_line(n)}
        return any(self.is_accounted(e, table_id) for e in epochs if e > after)

    def knows(self, epoch: int) -> bool:
        """Whether any table has been accounted for in that epoch."""
        number = f"{epoch:0{DIGITS}d}"
        ours = (n for n in self.names if n.startswith(f"{number}."))
        if any(_is_line(name) and name != f"{number}.json" for name in ours):
            return True
        return f"{number}.json" in self.names and bool(_former(self.folder, epoch))


def look(lake: str, source: int) -> Ledger:
    folder = ledger_folder(lake, source)
    names = tuple(names_in(folder, ".json"))
    rewinds = (_read(folder / name) for name in names if _is_rewind(name))
    return Ledger(folder, source, names, tuple(r for r in rewinds if r))


def write_line(
    lake: str, source: int, epoch: int, table_id: int, line: LedgerLine
) -> bool:
    """Says once what became of the epoch in the table as it is now; False when that
    was said before (and stays)."""
    ledger = look(lake, source)
    if ledger.is_accounted(epoch, table_id):
        return False
    generation = ledger.generation(epoch, table_id)
    line = dataclasses.replace(line, generation=generation)
    entry = LedgerEntry(source, epoch, {str(table_id): line})
    return (ledger.folder / _name(epoch, table_id, generation)).create(encode(entry))


def is_accounted(lake: str, source: int, epoch: int, table_id: int) -> bool:
    return look(lake, source).is_accounted(epoch, table_id)


def read_ledger_entry(lake: str, source: int, epoch: int) -> LedgerEntry | None:
    """What became of the epoch in each table, as it stands after tables went back."""
    ledger = look(lake, source)
    found = [
        entry
        for name in ledger.names
        if epoch_in(name) == epoch and _is_line(name)
        if (entry := _read(ledger.folder / name)) and not entry.is_checkpoint
    ]
    if not found:
        return None
    lines: dict[str, LedgerLine] = {}
    # of two lines of a table the one of the later generation holds
    for entry in sorted(found, key=_generation_in):
        lines |= as_it_stands(entry, ledger.rewinds).tables
    return LedgerEntry(source, epoch, lines)


def checkpoint_ledger(lake: str, source: int, *, upto: int) -> None:
    """Replaces the entries up to that epoch whose seals are gone by one that has each
    table's last line. While a seal is there, its epoch may be asked for."""
    ledger = look(lake, source)
    merged: dict[str, LedgerEntry] = {}
    for name in _mergeable(ledger, lake, upto):
        if entry := _read(ledger.folder / name):
            merged[name] = entry
    if len(merged) <= 1:
        return
    gone = [e for name, e in merged.items() if _is_rewind(name)]
    left = [r for r in ledger.rewinds if r not in gone]
    lines = _last_lines(merged.values(), ledger.rewinds)
    # without the rewinds that go, a later one counts from the beginning
    lines = {
        table: dataclasses.replace(
            line, generation=generation_of(left, line.epoch, int(table))
        )
        for table, line in lines.items()
    }
    kept = _checkpoint(ledger.folder, upto)
    kept.replace(encode(LedgerEntry(source, upto, lines, is_checkpoint=True)))
    for name in merged:
        if name != kept.name:
            (ledger.folder / name).delete()


def checkpoint_when_long(lake: str, source: int, *, upto: int) -> None:
    """A ledger of many entries is merged; those that are asked for stay."""
    ledger = look(lake, source)
    if len(ledger.names) <= CHECKPOINT_ENTRIES:
        return
    if len(_mergeable(ledger, lake, upto)) > CHECKPOINT_ENTRIES:
        checkpoint_ledger(lake, source, upto=upto)


def forget_later(
    lake: str, source: int, table_id: int, *, after: int, instant: str
) -> None:
    """The table went back to that epoch, the commit at `instant`: what the ledger says
    of it up to now is void, and its own seals behind go. Shared ones stay, they are
    applied again. Done once however often."""
    last = last_epoch(lake, source)
    if last <= after:
        return
    ledger = look(lake, source)
    tables = {str(table_id): LedgerLine("deferred", instant, TAKEN_BACK)}
    is_said_anew = ledger.has_line(table_id, after=after)
    for number in itertools.count(1):
        entry = LedgerEntry(source, last, tables, number, rewound_to=after)
        path = ledger.folder / _rewind_name(entry)
        if path.create(encode(entry)) or (not is_said_anew and _read(path) == entry):
            break
    drop_seals_behind(lake, source, table_id, after=after)


def _mergeable(ledger: Ledger, lake: str, upto: int) -> list[str]:
    """Names up to that epoch that no reader needs any more."""
    sealed = sealed_epochs(lake, ledger.source)
    asked = {_rewind_name(r) for r in ledger.rewinds if _is_asked(lake, r)}
    return [
        name
        for name in ledger.names
        if epoch_in(name) <= upto and name not in asked
        if not (_is_line(name) and epoch_in(name) in sealed)
    ]


def _is_asked(lake: str, rewind: LedgerEntry) -> bool:
    """Whether a seal is there of an epoch behind which a table went back."""
    behind = rewind.rewound_to or 0
    return any(
        behind < epoch <= rewind.epoch
        for table in rewind.tables
        for epoch in sealed_epochs(lake, rewind.source, table_id=int(table))
    )


def _last_lines(
    entries: Iterable[LedgerEntry], rewinds: Iterable[LedgerEntry]
) -> Mapping[str, LedgerLine]:
    rewinds = tuple(rewinds)
    lines: dict[str, LedgerLine] = {}
    plain = (e for e in entries if not e.generation)
    # an entry beside a checkpoint is of an epoch that was in flight when that was made
    for entry in sorted(plain, key=lambda e: (not e.is_checkpoint, _generation_in(e))):
        for table, line in as_it_stands(entry, rewinds).tables.items():
            epoch = line.epoch or (0 if entry.is_checkpoint else entry.epoch)
            known = lines.get(table)
            if line.reason == TAKEN_BACK or (known and known.epoch > epoch):
                continue
            lines[table] = dataclasses.replace(line, epoch=epoch)
    return lines


def _name(epoch: int, table_id: int, generation: int) -> str:
    again = f".r{generation}" if generation else ""
    return f"{epoch:0{DIGITS}d}.{table_id}{again}.json"


def _rewind_name(rewind: LedgerEntry) -> str:
    return f"{rewind.epoch:0{DIGITS}d}.g{rewind.generation}.json"


def _is_rewind(name: str) -> bool:
    return name[DIGITS:].startswith(".g")


def _is_line(name: str) -> bool:
    """Of an epoch in a table, or of a former release: that one may be a checkpoint."""
    return not name[DIGITS:].startswith((".g", ".c"))


def _generation_in(entry: LedgerEntry) -> int:
    return max((line.generation for line in entry.tables.values()), default=0)


def _checkpoint(folder: Place, epoch: int) -> Place:
    return folder / f"{epoch:0{DIGITS}d}.c.json"


def _former(folder: Place, epoch: int) -> LedgerEntry | None:
    """The entry of an epoch as former releases wrote it, for all tables at once."""
    found = _read(folder / f"{epoch:0{DIGITS}d}.json")
    return None if found is None or found.is_checkpoint else found


def _read(path: Place) -> LedgerEntry | None:
    found = path.read()
    return None if found is None else decode_ledger_entry(found.decode())
