"""Pages of result rows in one file per statement, sent as they lie: each a stream of
Arrow's, compressed with zstd by the engine.

Must not know engines, HTTP or what is in a page.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from gateway.engines.port import EngineColumn
from gateway.hs2.values import TypeId

# What the web process reads at once: pages, or one that is larger.
PART_BYTES = 4 * 1024 * 1024
# What a person or a program sees at once, of pages that may have a row each.
SHOWN_ROWS = 500


def type_name(column: EngineColumn) -> str:
    """Return a column's type as SQL writes it, in lower case."""
    try:
        name = TypeId(column.type_id).name.lower()
    except ValueError:
        return "string"
    if name == "null":
        return "void"
    if name == "decimal" and "precision" in column.qualifiers:
        scale = column.qualifiers.get("scale", 0)
        return f"decimal({column.qualifiers['precision']},{scale})"
    return name


@dataclass(frozen=True, slots=True)
class StoredPages:
    """Where pages lie one behind the other: `offset`, and the `sizes` of each, in
    bytes. Rows count from 0; the last page may have more than belong to the result."""

    first_row: int
    rows: int
    offset: int
    sizes: list[int]

    @property
    def size(self) -> int:
        return sum(self.sizes)


@dataclass(slots=True)
class ResultFile:
    """Rows of one statement. `size` counts bytes."""

    path: Path
    rows: int = 0
    size: int = 0
    _first_rows: array[int] = field(default_factory=lambda: array("q"))
    _offsets: array[int] = field(default_factory=lambda: array("q"))

    @property
    def pages(self) -> int:
        return len(self._offsets)

    def append(self, pages: Iterable[tuple[int, bytes]], *, most: int) -> bool:
        """Add pages with their numbers of rows, `most` rows in all; False when rows
        were left out."""
        with self.path.open("ab") as out:
            for rows, page in pages:
                if self.rows >= most:
                    return False
                out.write(page)
                self._first_rows.append(self.rows)
                self._offsets.append(self.size)
                self.size += len(page)
                self.rows += rows
                if self.rows > most:
                    self.rows = most
                    return False
        return True

    def find(self, number: int, *, several: bool) -> StoredPages | None:
        """Return a page, with those behind it that are read along, or that make a
        whole page with it; None beyond."""
        if not 0 <= number < self.pages:
            return None
        begin, after = self._offsets[number], number + 1
        if several:
            end = begin + PART_BYTES
            after = max(bisect_right(self._offsets, end, lo=number) - 1, after)
            after = self.pages if self.size <= end else after
        else:
            after = self._whole(number)
        stop = self._offsets[after] if after < self.pages else self.size
        bounds = [*self._offsets[number:after], stop]
        first = self._first_rows[number]
        rows = (self._first_rows[after] if after < self.pages else self.rows) - first
        sizes = [b - a for a, b in pairwise(bounds)]
        return StoredPages(first, rows, begin, sizes)

    def _whole(self, number: int) -> int:
        """The page behind as many as are shown together, at least one."""
        rows = self._first_rows[number] + SHOWN_ROWS
        end = self._offsets[number] + PART_BYTES
        by_rows = bisect_right(self._first_rows, rows, lo=number) - 1
        by_rows = self.pages if self.rows <= rows else by_rows
        by_bytes = bisect_right(self._offsets, end, lo=number) - 1
        by_bytes = self.pages if self.size <= end else by_bytes
        return max(min(by_rows, by_bytes), number + 1)

    def before(self, number: int) -> int | None:
        """From which page on a whole page ends before this one; None at the first."""
        if not 0 < number <= self.pages:
            return None
        last = self._first_rows[number] if number < self.pages else self.rows
        first = bisect_left(self._first_rows, last - SHOWN_ROWS, hi=number)
        return min(first, number - 1)

    def open(self, pages: StoredPages) -> BinaryIO:
        """Return the file at the first byte; it stays although it is removed."""
        source = self.path.open("rb", buffering=0)
        source.seek(pages.offset)
        return source

    def remove(self) -> None:
        """Delete the file; it has no page any more."""
        self.path.unlink(missing_ok=True)
        self.size = 0
        self._first_rows, self._offsets = array("q"), array("q")
