"""Changes of one table as its stream has them, in order, page by page.

A page is read by its place in the chain, so it costs what it shows, however long that
is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyarrow import Table

from core.errors import StaleState
from core.sentences import COLON, Sentence, joined
from ingest.contract.segments import OP, OPS, UNCHANGED, Segment, StreamTable
from ingest.lake.chain import read_beginning, read_segment, require_kept
from ingest.lake.port import Place
from ingest.lake.segment_files import read_table
from ingest.sources.row_batches import columns_in

# A page looks through so many segments at most, and has so many bytes of texts.
MOST_SEGMENTS = 1_000
MOST_BYTES = 4 << 20
_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Mark:
    """Up to where changes were read.

    number  that segment and all before it
    load    of the table, by whose rows what comes behind it is to be understood
    rows    and so many of the table's rows in the next segment
    """

    number: int
    load: str
    rows: int = 0


@dataclass(frozen=True, slots=True)
class LogChange:
    """A row of a segment. values: by source names, as the lake has them; those in
    `unchanged` were not sent. after: the mark behind it."""

    op: str
    values: Mapping[str, Any]
    unchanged: frozenset[str]
    segment: Segment
    after: Mark


@dataclass(frozen=True, slots=True)
class ChangePage:
    """after: the mark behind it, also where it has no changes. is_last: nothing more
    was there."""

    changes: tuple[LogChange, ...]
    after: Mark
    is_last: bool


def read_changes(
    folder: Place, table_id: int, after: Mark, *, until: int, most: int
) -> ChangePage:
    """What is behind the mark, up to the end of segment `until`.

    StaleState `changes_collected` when some of it is gone, `changes_replaced` when a
    load replaced what is before it, `changes_missing` when the stream lost some: the
    table has to be read whole, then.
    """
    at = first = _kept(folder, table_id, after)
    found: list[LogChange] = []
    size = 0
    end = min(until, first.number + MOST_SEGMENTS)
    while at.number < end and len(found) < most and size < MOST_BYTES:
        segment = read_segment(folder, at.number + 1)
        if segment is None:
            end = until = at.number
            break
        if error := _break_in(segment, table_id, after.load):
            if found:
                break
            raise error
        before = at
        at = Mark(segment.number, after.load)
        for change in _changes_in(folder, segment, table_id, before):
            found.append(change)
            size += _size(change)
            if len(found) == most or size >= MOST_BYTES:
                at = change.after
                break
    # what was read may be the file of a stopped writer in place of a collected one
    if at != first:
        require_kept(folder, first.number + 1)
    return ChangePage(tuple(found), at, at.number >= until)


def _kept(folder: Place, table_id: int, mark: Mark) -> Mark:
    """The mark, further on where only segments without the table are gone."""
    beginning = read_beginning(folder)
    if beginning.number <= mark.number + 1:
        return mark
    known = beginning.tables.get(table_id, StreamTable(load=mark.load))
    if known.load != mark.load:
        raise _replaced()
    if known.last > mark.number:
        raise StaleState(
            "changes behind this token were collected already",
            code="changes_collected",
            hint="begin without `after`, then read the table whole; the policy's"
            " `keep_changes_seconds` keeps changes for longer",
        )
    if known.state in {"deferred", "removed"}:
        raise _missing("")
    return Mark(beginning.number - 1, mark.load)


def _break_in(segment: Segment, table_id: int, load: str) -> StaleState | None:
    """Why changes do not go on into it; its records come before its rows."""
    for control in segment.controls:
        if control.table_id != table_id:
            continue
        if control.kind == "cut" and control.load != load:
            return _replaced()
        if control.kind in {"deferred", "removed"}:
            return _missing(control.reason)
    return None


def _changes_in(
    folder: Place, segment: Segment, table_id: int, mark: Mark
) -> Iterator[LogChange]:
    """Those of the table behind the mark."""
    parts = segment.parts_of(table_id)
    place, every = 0, sum(part.rows for part in parts)
    for part in parts:
        begin, start, place = max(mark.rows, place), place, place + part.rows
        if begin >= place:
            continue
        rows = read_table(folder, segment, part).slice(begin - start)
        for number, change in enumerate(_decoded(rows), begin + 1):
            after = replace(mark, rows=number)
            if number == every:
                after = Mark(segment.number, mark.load)
            yield LogChange(*change, segment, after)


def _decoded(rows: Table) -> Iterator[tuple[str, dict[str, Any], frozenset[str]]]:
    columns = columns_in(rows.schema)
    for begin in range(0, rows.num_rows, _AT_ONCE):
        for row in rows.slice(begin, _AT_ONCE).to_pylist():
            unsent = int.from_bytes(row[UNCHANGED] or b"", "little")
            yield (
                OPS[row[OP]],
                {column.source_name: row[column.alias] for column in columns},
                frozenset(
                    column.source_name
                    for number, column in enumerate(columns)
                    if unsent >> number & 1
                ),
            )


def _size(change: LogChange) -> int:
    values = change.values.values()
    return sum(len(one) for one in values if isinstance(one, str | bytes))


def _replaced() -> StaleState:
    return StaleState(
        "a load replaced the table behind this token",
        code="changes_replaced",
        hint="begin without `after`, then read the table whole",
    )


def _missing(reason: str) -> StaleState:
    what = Sentence("changes behind this token are missing in the stream")
    return StaleState(
        joined([what, reason], COLON),
        code="changes_missing",
        hint="resync the table; then begin without `after`, and read it whole",
    )
