"""Old segments that few tables need give way to folds: these tables' rows alone.

Segments have rows of hundreds of tables. One that is paused or fails would keep all of
them for as long as that lasts; so what it needs is copied, and the segments go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from core.errors import TerminalError
from ingest.contract.segments import Fold, Folded, Segment, encode_segment
from ingest.lake.chain import (
    BODY_AT,
    ChainIndex,
    fold,
    read_beginning,
    read_rows,
    read_segment,
)
from ingest.lake.folds import first_and_count
from ingest.lake.port import Place

# A run of segments is folded when it is this long: some minutes, so that a table which
# was only slow has passed it, and a table has some tens of files for a day.
LEAST_SEGMENTS = 1_000
# Or when it has so many bytes: what is copied is held in memory, at most half of them.
LEAST_BYTES = 64 << 20


@dataclass(slots=True)
class Folder:
    """The owner of one stream's folds. It remembers for which tables there was no run
    to fold from the beginning up to a segment."""

    index: ChainIndex
    _tried: tuple[int, frozenset[int], int] = (0, frozenset(), 0)

    def fold(self, needs: Mapping[int, int], *, before: int) -> bool:
        """Folds the oldest run of segments that ends before that one, if at most half
        of it is needed. The index is to be refreshed then, and it may be asked again.

        needs   as `ChainIndex.needs` says
        before  at most the newest segment as that was asked: a load that began later
                has its cut behind it
        """
        index, first = self.index, self.index.beginning.number
        is_long = before - first >= LEAST_SEGMENTS
        if not is_long and index.bytes_between(first, before) < LEAST_BYTES:
            return False
        tables = frozenset(
            table_id
            for table_id, after in needs.items()
            if 0 < first_and_count([index.whole(table_id, after)])[0] < before
        )
        *tried, end = self._tried
        if not tables or (tried == [first, tables] and before < end + LEAST_SEGMENTS):
            return False
        run = _run(index.folder, first, before, tables)
        if run is None:
            self._tried = (first, tables, before)
            return False
        return self._replace(run)

    def _replace(self, run: list[Segment]) -> bool:
        folder, first = self.index.folder, run[0].number
        lasts = {table_id: one.number for one in run for table_id in one.tables}
        try:
            for table_id, last in lasts.items():
                name = Fold(first, last, 0).name_for(table_id)
                # one that is there is of a collector that died: the same rows
                (folder / name).create(_folded(folder, run, table_id, name))
        except TerminalError:
            if read_beginning(folder).number > first:
                return False  # another collector was faster
            raise
        return fold(self.index, end=run[-1].number + 1, lasts=lasts)


def _run(
    folder: Place, first: int, before: int, tables: frozenset[int]
) -> list[Segment] | None:
    """The segments of the shortest run that is worth it, with what is needed of them;
    None when there is none yet."""
    found: list[Segment] = []
    needed = size = 0
    for number in range(first, before):
        segment = read_segment(folder, number)
        if segment is None:
            return None  # another collector was faster
        parts = tuple(part for part in segment.parts if part.table_id in tables)
        found.append(replace(segment, parts=parts, controls=()))
        size += sum(part.bytes for part in segment.parts)
        needed += sum(part.bytes for part in parts)
        is_long = len(found) >= LEAST_SEGMENTS or size >= LEAST_BYTES
        if is_long and 2 * needed <= size:
            return found
        if 2 * needed > LEAST_BYTES:
            return None
    return None


def _folded(folder: Place, run: list[Segment], table_id: int, name: str) -> bytes:
    """The file of one table."""
    found: list[Segment] = []
    body: list[bytes] = []
    at = BODY_AT
    for segment in run:
        parts = []
        for part in segment.parts_of(table_id):
            body.append(read_rows(folder, segment, part))
            parts.append(msgspec.structs.replace(part, offset=at, file=name))
            at += part.bytes
        if parts:
            found.append(replace(segment, parts=tuple(parts)))
    return encode_segment(Folded(tuple(found)), b"".join(body))
