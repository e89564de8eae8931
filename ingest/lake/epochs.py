"""Seals and ledger entries as files of the lake.

`_sluice/epochs/<source>/<epoch>/…` holds events, `<epoch>[.<table>].seal` beside it
makes them count (with the table's id when the epoch is about one table only), and
`_sluice/ledger/<source>/<epoch>.json` says what became of them. `<epoch>.g<n>.json`
is a later generation: it makes void what was said of a table that went back.
`<epoch>.c.json` is a checkpoint of all entries up to that epoch. It never has the name
of an entry: a load that holds an epoch for hours writes its own entry at its end.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

from core.errors import SluiceError
from ingest.changes.epochs import (
    TAKEN_BACK,
    LedgerEntry,
    LedgerLine,
    Seal,
    as_it_stands,
    decode_ledger_entry,
    decode_seal,
    encode,
)
from ingest.lake.place import place_at
from ingest.lake.port import Place

_DIGITS = 12


def epoch_folder(lake: str, source: int, epoch: int) -> Place:
    return _epochs(lake, source) / f"{epoch:0{_DIGITS}d}"


def write_seal(lake: str, seal: Seal) -> Seal:
    """Closes an epoch. When it was closed before, the seal that is there wins and
    is returned: a replay must apply the same epoch."""
    path = _seal_path(lake, seal)
    if path.create(encode(seal)):
        return seal
    return _read_seal(path) or seal


def seals_of(lake: str, source: int, epoch: int) -> list[Seal]:
    """All that were ever made of this epoch and are there: more than one only when
    its number was handed out twice."""
    folder = _epochs(lake, source)
    names = (n for n in _names(folder, ".seal") if _epoch_in(n) == epoch)
    return [seal for name in names if (seal := _read_seal(folder / name))]


def seals_after(
    lake: str, source: int, epoch: int, *, upto: int, table_id: int
) -> Iterator[Seal]:
    """Seals about the table with epoch < their number ≤ upto, in order."""
    folder = _epochs(lake, source)
    for name in _names(folder, ".seal"):
        if epoch < _epoch_in(name) <= upto and _table_in(name) in (None, table_id):
            seal = _read_seal(folder / name)
            if seal is not None and seal.is_about(table_id):
                yield seal


def drop_older_seals(lake: str, source: int, table_id: int, *, before: int) -> None:
    """Removes seals about this table only, once their epochs are accounted for;
    the newest stays and tells the position."""
    folder = _epochs(lake, source)
    for name in _names(folder, ".seal"):
        if _table_in(name) == table_id and _epoch_in(name) < before:
            (folder / name).delete()


def forget_later(
    lake: str, source: int, table_id: int, *, after: int, instant: str
) -> None:
    """The table went back to that epoch, the commit at `instant`: what the ledger says
    of it up to now is void, and its own seals behind go. Done once however often."""
    last = last_epoch(lake, source)
    if last <= after:
        return
    tables = {str(table_id): LedgerLine("deferred", instant, TAKEN_BACK)}
    for number in itertools.count(1):
        entry = LedgerEntry(source, last, tables, number, rewound_to=after)
        if write_ledger_entry(lake, entry) or _read_entry(_entry(lake, entry)) == entry:
            break
    folder = _epochs(lake, source)
    for name in _names(folder, ".seal"):
        if _table_in(name) == table_id and _epoch_in(name) > after:
            (folder / name).delete()


def drop_events(lake: str, source: int, epoch: int) -> None:
    """Removes the event files of an epoch; its seal stays as the record."""
    with contextlib.suppress(SluiceError):  # nobody reads what is left
        epoch_folder(lake, source, epoch).delete_all()


def drop_unsealed_events(
    lake: str, source: int, table_id: int, *, applied: int
) -> list[int]:
    """Removes event files of this table that no seal speaks of and none can any more:
    a sync left them that ended before its seal; their epochs.

    applied  the epoch that the table's last commit reached: apply reads later seals
             only, so a writer that was shut out and seals an earlier epoch late makes
             nothing that anybody reads
    """
    folder, gone = _epochs(lake, source), []
    names = folder.names()
    sealed = {_epoch_in(n) for n in names if n.endswith(".seal")}
    for name in sorted(n for n in names if len(n) == _DIGITS and n.isdigit()):
        epoch, events = int(name), folder / name / str(table_id)
        if epoch <= applied and epoch not in sealed and events.exists():
            events.delete_all()
            if not (folder / name).names():
                (folder / name).delete_all()
            gone.append(epoch)
    return gone


def write_ledger_entry(lake: str, entry: LedgerEntry) -> bool:
    """False when the epoch was accounted for before (that entry stays)."""
    path = _entry(lake, entry)
    if path.create(encode(entry)):
        return True
    found = _read_entry(path)
    if found is None or not found.is_checkpoint:
        return False
    # former releases named a checkpoint like the entry of its epoch
    _checkpoint(lake, found.source, found.epoch).replace(encode(found))
    path.replace(encode(entry))
    return True


def is_accounted(lake: str, source: int, epoch: int) -> bool:
    found = _read_entry(_ledger(lake, source) / f"{epoch:0{_DIGITS}d}.json")
    return found is not None and not found.is_checkpoint


def read_ledger_entry(lake: str, source: int, epoch: int) -> LedgerEntry | None:
    """What became of the epoch, as it stands after tables went back."""
    found = _read_entry(_ledger(lake, source) / f"{epoch:0{_DIGITS}d}.json")
    return found and as_it_stands(found, _generations(lake, source))


def read_checkpoint(lake: str, source: int, epoch: int) -> LedgerEntry | None:
    """The last line of each table up to that epoch, as it stands now; None when no
    checkpoint was made there."""
    found = _read_entry(_checkpoint(lake, source, epoch))
    found = found or _read_entry(_ledger(lake, source) / f"{epoch:0{_DIGITS}d}.json")
    if found is None or not found.is_checkpoint:
        return None
    return as_it_stands(found, _generations(lake, source))


def checkpoint_ledger(lake: str, source: int, *, upto: int) -> None:
    """Replaces all entries up to that epoch by one that has each table's last line."""
    folder, later = _ledger(lake, source), _generations(lake, source)
    merged: dict[str, LedgerEntry] = {}
    for name in _names(folder, ".json"):
        found = _read_entry(folder / name) if _epoch_in(name) <= upto else None
        if found is not None:
            merged[name] = found
    lines: dict[str, LedgerLine] = {}
    # an entry beside a checkpoint is of an epoch that was in flight when that was made
    for found in sorted(merged.values(), key=lambda e: not e.is_checkpoint):
        if not found.generation:
            now = as_it_stands(found, later).tables
            lines |= {t: one for t, one in now.items() if one.reason != TAKEN_BACK}
    if len(merged) > 1:
        entry = LedgerEntry(source, upto, lines, is_checkpoint=True)
        kept = _checkpoint(lake, source, upto)
        kept.replace(encode(entry))
        for name in merged:
            if name != kept.name:
                (folder / name).delete()


def last_epoch(lake: str, source: int, *, with_events: bool = False) -> int:
    """The highest epoch that has a seal or a ledger entry; 0 when none has.
    `with_events`: or event files without either."""
    names = [
        *_names(_epochs(lake, source), "" if with_events else ".seal"),
        *_names(_ledger(lake, source), ".json"),
    ]
    return max((_epoch_in(n) for n in names), default=0)


def _epochs(lake: str, source: int) -> Place:
    return place_at(lake) / "_sluice" / "epochs" / str(source)


def _ledger(lake: str, source: int) -> Place:
    return place_at(lake) / "_sluice" / "ledger" / str(source)


def _entry(lake: str, entry: LedgerEntry) -> Place:
    later = f".g{entry.generation}" if entry.generation else ""
    name = f"{entry.epoch:0{_DIGITS}d}{later}.json"
    return _ledger(lake, entry.source) / name


def _checkpoint(lake: str, source: int, epoch: int) -> Place:
    return _ledger(lake, source) / f"{epoch:0{_DIGITS}d}.c.json"


def _generations(lake: str, source: int) -> list[LedgerEntry]:
    """The later ones, in no order: each says by itself what it makes void."""
    folder = _ledger(lake, source)
    names = (n for n in _names(folder, ".json") if ".g" in n)
    return [entry for name in names if (entry := _read_entry(folder / name))]


def _read_entry(path: Place) -> LedgerEntry | None:
    found = path.read()
    return None if found is None else decode_ledger_entry(found.decode())


def _seal_path(lake: str, seal: Seal) -> Place:
    tables = list(seal.schema_versions)
    about = f".{tables[0]}" if len(tables) == 1 else ""
    name = f"{seal.epoch:0{_DIGITS}d}{about}.seal"
    return _epochs(lake, seal.source) / name


def _read_seal(path: Place) -> Seal | None:
    found = path.read()
    return None if found is None else decode_seal(found.decode())


def _names(folder: Place, suffix: str) -> list[str]:
    """File names that begin with an epoch, in its order."""
    names = (n for n in folder.names() if n.endswith(suffix))
    return sorted(n for n in names if n[:_DIGITS].isdigit())


def _epoch_in(name: str) -> int:
    return int(name[:_DIGITS])


def _table_in(name: str) -> int | None:
    part = name[_DIGITS:].removesuffix(".seal").removeprefix(".")
    return int(part) if part.isdigit() else None
