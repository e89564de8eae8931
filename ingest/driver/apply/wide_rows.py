"""Rows so wide that a driver cannot hold them: known before its JVM gets one, for that
would end it, and with it the work of every other table. Pure.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pyarrow as pa

from core.errors import TerminalError
from core.sentences import Sentence
from ingest.contract.segments import TablePart
from ingest.lake.segment_files import SPILL_BYTES

# Of the heap, a row: docs/performance.md has what rows took.
PARTS = 30
# Of these, a row that is written beside others; wider ones take turns.
_SIDE_BY_SIDE = 4
_LONGEST_KEY = 60
# Of a part at most, but its widest row: a spill ends it.
_BESIDE = 2 * SPILL_BYTES
# Held while wide rows are written.
TURN = threading.Lock()


def widest(heap: int) -> int:
    """Bytes that a row may have."""
    return heap // PARTS


def is_wide(rows: pa.Table, most: int) -> bool:
    """Whether they have a row that is written alone."""
    return _place_beyond(rows, most // _SIDE_BY_SIDE) is not None


def refuse_too_wide(
    rows: pa.Table, most: int, *, table: str, key: Sequence[str]
) -> None:
    """TerminalError `row_too_large` for a row of more bytes, also for one that was
    deleted: logs have its values. key: aliases of the key's columns."""
    place = _place_beyond(rows, most)
    if place is None:
        return
    row = rows.slice(place, 1)
    values = ", ".join(str(row[alias][0].as_py()) for alias in key)
    where = Sentence("key %(key)s", key=values[:_LONGEST_KEY])
    raise _too_wide(table, where, row.nbytes, most)


def refuse_too_wide_part(
    part: TablePart, most: int, *, table: str, number: int
) -> None:
    """The same by a part's bytes, before they are read: what lies beside its widest row
    is little."""
    if part.bytes - _BESIDE > most:
        where = Sentence("segment %(number)s", number=number)
        raise _too_wide(table, where, part.bytes - _BESIDE, most)


def refuse_too_wide_read(width: int, most: int, *, table: str) -> None:
    """The same by the width of the widest row that was read from the table itself."""
    if width > most:
        raise _too_wide(table, Sentence("at its source"), width, most)


def _too_wide(table: str, where: str, width: int, most: int) -> TerminalError:
    return TerminalError(
        "%(table)s has a row of %(width)s MiB (%(where)s), and this driver writes rows"
        " of %(most)s MiB at most. Nothing was written",
        heap=(width * PARTS >> 20) + 1,
        table=table,
        width=f"{width >> 20:,}",
        where=where,
        most=f"{most >> 20:,}",
        code="row_too_large",
        hint="set SLUICE_DRIVER_MEMORY to %(heap)sm or more, restart the driver host"
        " and resume the table: it goes on where it is. Or remove it and add it again"
        " without the wide column (exclude_columns)",
    )


def _place_beyond(rows: pa.Table, most: int) -> int | None:
    """Of the first row of more bytes; None = there is none. Of halves, so that many
    narrow rows cost little."""
    if rows.nbytes <= most:
        return None
    if rows.num_rows == 1:
        return 0
    half = rows.num_rows // 2
    place = _place_beyond(rows.slice(0, half), most)
    if place is None:
        behind = _place_beyond(rows.slice(half), most)
        place = None if behind is None else half + behind
    return place
