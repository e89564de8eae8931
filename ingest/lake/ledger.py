"""What became of each epoch in its table, as files of the lake.

`_sluice/ledger/<source>/<epoch>.<table>.json` is written once. Numbers of epochs only
grow, and the newest line says how far they got: of many, the oldest go.
"""

from __future__ import annotations

from ingest.contract.epochs import LedgerLine, decode_ledger_line, encode
from ingest.lake.epochs import DIGITS, epoch_in, ledger_folder, names_in, sealed_epochs
from ingest.lake.port import Place

# So many lines of a source stay, and those of epochs that have a seal.
MOST_LINES = 1_000


def write_line(
    lake: str, source: int, epoch: int, table_id: int, line: LedgerLine
) -> bool:
    """Records once what became of the epoch in the table; False when there was a line
    before, which stays."""
    return _line(lake, source, epoch, table_id).create(encode(line))


def read_line(lake: str, source: int, epoch: int, table_id: int) -> LedgerLine | None:
    found = _line(lake, source, epoch, table_id).read()
    return None if found is None else decode_ledger_line(found.decode())


def is_accounted(lake: str, source: int, epoch: int, table_id: int) -> bool:
    return _line(lake, source, epoch, table_id).exists()


def knows(lake: str, source: int, epoch: int) -> bool:
    """Whether the epoch has a line of any table."""
    names = names_in(ledger_folder(lake, source), ".json")
    return any(epoch_in(name) == epoch for name in names)


def drop_oldest_lines(lake: str, source: int) -> None:
    """Once there are twice as many as stay, so that few applies pay for it."""
    folder = ledger_folder(lake, source)
    names = names_in(folder, ".json")
    if len(names) <= 2 * MOST_LINES:
        return
    sealed = sealed_epochs(lake, source)
    for name in names[:-MOST_LINES]:
        if epoch_in(name) not in sealed:
            (folder / name).delete()


def _line(lake: str, source: int, epoch: int, table_id: int) -> Place:
    return ledger_folder(lake, source) / f"{epoch:0{DIGITS}d}.{table_id}.json"
