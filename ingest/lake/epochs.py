"""Epochs as files of the lake: events, and the seals that make them count.

`_sluice/epochs/<source>/<epoch>/…` holds events, `<epoch>.<table>.seal` beside it makes
them count. What became of them is `ingest.lake.ledger`.
"""

from __future__ import annotations

from collections.abc import Iterator

from core.errors import SluiceError
from ingest.contract.epochs import Seal, decode_seal, encode
from ingest.lake.place import place_at
from ingest.lake.port import Place

DIGITS = 12


def epoch_folder(lake: str, source: int, epoch: int) -> Place:
    return _epochs(lake, source) / f"{epoch:0{DIGITS}d}"


def ledger_folder(lake: str, source: int) -> Place:
    return place_at(lake) / "_sluice" / "ledger" / str(source)


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
    names = (n for n in names_in(folder, ".seal") if epoch_in(n) == epoch)
    return [seal for name in names if (seal := _read_seal(folder / name))]


def seals_after(
    lake: str, source: int, epoch: int, *, upto: int, table_id: int
) -> Iterator[Seal]:
    """Seals about the table with epoch < their number ≤ upto, in order."""
    folder = _epochs(lake, source)
    for name in names_in(folder, ".seal"):
        is_wanted = epoch < epoch_in(name) <= upto and table_in(name) == table_id
        if is_wanted and (seal := _read_seal(folder / name)):
            yield seal


def sealed_epochs(lake: str, source: int) -> frozenset[int]:
    """Of any table."""
    return frozenset(epoch_in(n) for n in names_in(_epochs(lake, source), ".seal"))


def drop_older_seals(lake: str, source: int, table_id: int, *, before: int) -> None:
    """Removes seals of this table, once their epochs are accounted for; the newest
    stays and tells the position."""
    _drop_seals(lake, source, table_id, range(before))


def drop_seals_behind(lake: str, source: int, table_id: int, *, after: int) -> None:
    """The table went back to that epoch: what was captured behind it is captured again,
    in epochs of its own."""
    _drop_seals(lake, source, table_id, range(after + 1, 10**DIGITS))


def drop_events(lake: str, source: int, epoch: int) -> bool:
    """Removes the event files of an epoch, its seal stays as the record; False when
    the storage did not let it."""
    try:
        epoch_folder(lake, source, epoch).delete_all()
    except SluiceError:  # no reader needs what is left
        return False
    return True


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
    sealed = {epoch_in(n) for n in names if n.endswith(".seal")}
    for name in sorted(n for n in names if len(n) == DIGITS and n.isdigit()):
        epoch, events = int(name), folder / name / str(table_id)
        if epoch <= applied and epoch not in sealed and events.exists():
            events.delete_all()
            if not (folder / name).names():
                (folder / name).delete_all()
            gone.append(epoch)
    return gone


def last_epoch(lake: str, source: int, *, with_events: bool = False) -> int:
    """The highest epoch that has a seal or a ledger entry; 0 when none has.
    `with_events`: or event files without either."""
    names = [
        *names_in(_epochs(lake, source), "" if with_events else ".seal"),
        *names_in(ledger_folder(lake, source), ".json"),
    ]
    return max((epoch_in(n) for n in names), default=0)


def names_in(folder: Place, suffix: str) -> list[str]:
    """File names that begin with an epoch, in its order."""
    names = (n for n in folder.names() if n.endswith(suffix))
    return sorted(n for n in names if n[:DIGITS].isdigit())


def epoch_in(name: str) -> int:
    return int(name[:DIGITS])


def _drop_seals(lake: str, source: int, table_id: int, epochs: range) -> None:
    folder = _epochs(lake, source)
    for name in names_in(folder, ".seal"):
        if table_in(name) == table_id and epoch_in(name) in epochs:
            (folder / name).delete()


def _epochs(lake: str, source: int) -> Place:
    return place_at(lake) / "_sluice" / "epochs" / str(source)


def _seal_path(lake: str, seal: Seal) -> Place:
    (table,) = seal.tables
    return _epochs(lake, seal.source) / f"{seal.epoch:0{DIGITS}d}.{table}.seal"


def _read_seal(path: Place) -> Seal | None:
    found = path.read()
    return None if found is None else decode_seal(found.decode())


def table_in(name: str) -> int | None:
    part = name[DIGITS:].removeprefix(".").partition(".")[0]
    return int(part) if part.isdigit() else None
