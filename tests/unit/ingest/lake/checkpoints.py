"""Reading a checkpoint of a ledger: production only merges it into the next one."""

from __future__ import annotations

from ingest.contract.epochs import LedgerEntry, as_it_stands, decode_ledger_entry
from ingest.lake.ledger import look


def read_checkpoint(lake: str, source: int, epoch: int) -> LedgerEntry:
    """The last line of each table up to that epoch, as it stands now."""
    ledger = look(lake, source)
    names = (f"{epoch:012d}.c.json", f"{epoch:012d}.json")
    texts = [text for name in names if (text := (ledger.folder / name).read())]
    made = decode_ledger_entry(texts[0].decode())
    assert made.is_checkpoint
    return as_it_stands(made, ledger.rewinds)
