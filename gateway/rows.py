"""Result rows as JSON, and pages of them in one file per statement, sent as they lie.

Decimals, timestamps and integers beyond 2^53 are strings, so that no reader loses a
digit. Must not know engines or HTTP.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from core.json_values import exact
from gateway.engines.port import EngineColumn
from gateway.hs2.rowset import decode_row_set
from gateway.hs2.values import TypeId

# A page ends with either: rows are read and written again by the web process, as a
# page at once. A larger row is a page of its own.
PAGE_ROWS = 500
PAGE_BYTES = 1024 * 1024


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


def json_rows(row_set: bytes | memoryview) -> list[bytes]:
    """Return a row set's rows, each a JSON array in UTF-8."""
    # row by row: the encoder lets no other thread run before it is through
    return [
        json.dumps([_json(value) for value in row], ensure_ascii=False).encode()
        for row in zip(*decode_row_set(row_set), strict=True)
    ]


def _json(value: object) -> object:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return exact(value)
    if isinstance(value, float) and not math.isfinite(value):
        return (
            "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
        )
    if isinstance(value, bytes):
        return value.hex()
    return value


@dataclass(frozen=True, slots=True)
class StoredPage:
    """Where a JSON array of rows lies in its file, in bytes. Rows count from 0."""

    first_row: int = 0
    offset: int = 0
    size: int = 0


@dataclass(slots=True)
class ResultFile:
    """Rows of one statement, one page a line. `size` counts bytes."""

    path: Path
    page_rows: int = PAGE_ROWS
    page_bytes: int = PAGE_BYTES
    rows: int = 0
    size: int = 0
    pages: list[StoredPage] = field(default_factory=list)
    _pending: list[bytes] = field(default_factory=list)
    _pending_bytes: int = 0

    def append(self, rows: Iterable[bytes]) -> None:
        """Add rows, each a JSON array, writing full pages."""
        for row in rows:
            # two bytes around a page, one between two rows
            if self._pending_bytes + len(row) + 2 > self.page_bytes:
                self.finish()
            self._pending.append(row)
            self._pending_bytes += len(row) + 1
            self.rows += 1
            if len(self._pending) >= self.page_rows:
                self.finish()

    def finish(self) -> None:
        """Write what is left."""
        if not self._pending:
            return
        page = b"[" + b",".join(self._pending) + b"]"
        with self.path.open("ab") as out:
            out.write(page + b"\n")
        first = self.rows - len(self._pending)
        self.pages.append(StoredPage(first, self.size, len(page)))
        self.size += len(page) + 1
        self._pending, self._pending_bytes = [], 0

    def open(self, page: StoredPage) -> BinaryIO:
        """Return the file at a page's first byte; it stays although it is removed."""
        source = self.path.open("rb", buffering=0)
        source.seek(page.offset)
        return source

    def remove(self) -> None:
        """Delete the file; it has no page any more."""
        self.path.unlink(missing_ok=True)
        self.size = 0
        self.pages.clear()
