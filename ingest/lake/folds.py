"""Folds, as who reads a stream sees them: the rows of a table that fell behind, out of
segments that are gone, a file for each run of them.

They are made by `ingest.lake.folding`, named by `beginning.json`, and never changed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ingest.contract.segments import Beginning, Fold, Segment, decode_fold, footer_bytes
from ingest.lake.port import Place

# Most footers are shorter, so that one request reads them.
_TAIL = 16_384
# Numbers in order, and where in them begin those that are meant.
Run = tuple[Sequence[int], int]


def first_and_count(runs: Iterable[Run]) -> tuple[int, int]:
    """Of all that is meant; the first 0 = none. Looks at no other number."""
    meant = [(numbers, at) for numbers, at in runs if at < len(numbers)]
    first = next((numbers[at] for numbers, at in meant), 0)
    return first, sum(len(numbers) - at for numbers, at in meant)


@dataclass(slots=True)
class FoldReader:
    """What an index knows of folds: which segments each has, and the footers of the one
    that was read last, for a table's are read in order."""

    folder: Place
    _numbers: dict[str, array[int]] = field(default_factory=dict)
    _last: tuple[str, dict[int, Segment]] = ("", {})

    def runs(self, table_id: int, known: Beginning, *, after: int) -> Iterator[Run]:
        """Of folded segments with rows of the table. Of a fold that is gone, for its
        table needs it no more, the last: who reads it finds that out."""
        for fold in known.folds.get(table_id, ()):
            name = fold.name_for(table_id)
            if fold.last <= after:
                self._numbers.pop(name, None)
                continue
            if name not in self._numbers:
                segments = self._read(name)
                if segments is None:
                    yield (fold.last,), 0
                    continue
                self._numbers[name] = array("q", segments)
            yield self._numbers[name], bisect_right(self._numbers[name], after)

    def segment(self, table_id: int, fold: Fold, number: int) -> Segment | None:
        """None when the fold is gone."""
        return (self._read(fold.name_for(table_id)) or {}).get(number)

    def _read(self, name: str) -> dict[int, Segment] | None:
        last, segments = self._last
        if last == name:
            return segments
        tail = read_footer(self.folder / name)
        if tail is None:
            return None
        segments = {one.number: one for one in decode_fold(tail).segments}
        self._last = (name, segments)
        return segments


def read_footer(place: Place) -> bytes | None:
    """A file's last bytes, with its footer whole."""
    tail = place.read_part(-_TAIL, _TAIL)
    if tail is None:
        return None
    size = footer_bytes(tail)
    if len(tail) < size:
        tail = place.read_part(-size, size) or b""
    return tail
