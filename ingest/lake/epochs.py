"""Seals and ledger entries as files of the lake.

`_sluice/epochs/<source>/<epoch>/…` holds events, `<epoch>.seal` beside it makes
them count, `_sluice/ledger/<source>/<epoch>.json` says what became of them.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from ingest.changes.epochs import (
    LedgerEntry,
    Seal,
    decode_ledger_entry,
    decode_seal,
    encode,
)
from ingest.lake.files import create_if_absent, local_path, storage_error

_DIGITS = 12


def epoch_folder(lake: str, source: int, epoch: int) -> Path:
    return _epochs(lake, source) / f"{epoch:0{_DIGITS}d}"


def write_seal(lake: str, seal: Seal) -> Seal:
    """Closes an epoch. When it was closed before, the seal that is there wins and
    is returned: a replay must apply the same epoch."""
    path = _seal_path(lake, seal.source, seal.epoch)
    if create_if_absent(path, encode(seal)):
        return seal
    return decode_seal(path.read_text("utf-8"))


def read_seal(lake: str, source: int, epoch: int) -> Seal | None:
    path = _seal_path(lake, source, epoch)
    try:
        return decode_seal(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_error(error, path) from error


def seals_after(lake: str, source: int, epoch: int, *, upto: int) -> Iterator[Seal]:
    """Seals with epoch < their number ≤ upto, in order."""
    for number in _numbers(_epochs(lake, source), ".seal"):
        if epoch < number <= upto:
            seal = read_seal(lake, source, number)
            if seal is not None:
                yield seal


def drop_events(lake: str, source: int, epoch: int) -> None:
    """Removes the event files of an epoch; its seal stays as the record."""
    shutil.rmtree(epoch_folder(lake, source, epoch), ignore_errors=True)


def write_ledger_entry(lake: str, entry: LedgerEntry) -> bool:
    """False when the epoch was accounted for before (that entry stays)."""
    name = f"{entry.epoch:0{_DIGITS}d}"
    if entry.generation:
        name += f".g{entry.generation}"
    return create_if_absent(_ledger(lake, entry.source) / f"{name}.json", encode(entry))


def read_ledger_entry(lake: str, source: int, epoch: int) -> LedgerEntry | None:
    path = _ledger(lake, source) / f"{epoch:0{_DIGITS}d}.json"
    try:
        return decode_ledger_entry(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_error(error, path) from error


def last_epoch(lake: str, source: int) -> int:
    """The highest epoch that has a seal or a ledger entry; 0 when none has."""
    numbers = [
        *_numbers(_epochs(lake, source), ".seal"),
        *_numbers(_ledger(lake, source), ".json"),
    ]
    return max(numbers, default=0)


def _epochs(lake: str, source: int) -> Path:
    return local_path(lake) / "_sluice" / "epochs" / str(source)


def _ledger(lake: str, source: int) -> Path:
    return local_path(lake) / "_sluice" / "ledger" / str(source)


def _seal_path(lake: str, source: int, epoch: int) -> Path:
    return _epochs(lake, source) / f"{epoch:0{_DIGITS}d}.seal"


def _numbers(folder: Path, suffix: str) -> list[int]:
    try:
        names = [p.name for p in folder.iterdir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise storage_error(error, folder) from error
    stems = [n.removesuffix(suffix) for n in names if n.endswith(suffix)]
    return sorted(int(s) for s in stems if s.isdigit())
