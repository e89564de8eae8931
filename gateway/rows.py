"""Result values as JSON, and pages of them in one file per statement.

Decimals, timestamps and integers beyond 2^53 are strings, so that no reader loses a
digit. Must not know engines or HTTP.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from core.json_values import exact
from gateway.engines.port import EngineColumn
from gateway.hs2.rowset import decode_row_set
from gateway.hs2.values import TypeId

_INTEGERS = {TypeId.TINYINT, TypeId.SMALLINT, TypeId.INT, TypeId.BIGINT}


def type_name(column: EngineColumn) -> str:
    """Return a column's type as SQL writes it, in lower case."""
    try:
        name = TypeId(column.type_id).name.lower()
    except ValueError:
        return "string"
    if name == "decimal" and "precision" in column.qualifiers:
        scale = column.qualifiers.get("scale", 0)
        return f"decimal({column.qualifiers['precision']},{scale})"
    return name


def json_rows(row_set: bytes | memoryview) -> list[list[object]]:
    """Return a row set's rows as JSON values."""
    columns = [[_json(value) for value in values] for values in decode_row_set(row_set)]
    return [list(row) for row in zip(*columns, strict=True)]


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


@dataclass(slots=True)
class ResultFile:
    """Rows of one statement, one page a line. `size` counts bytes."""

    path: Path
    page_rows: int
    rows: int = 0
    size: int = 0
    offsets: list[int] = field(default_factory=list)
    _pending: list[list[object]] = field(default_factory=list)

    def append(self, rows: Sequence[list[object]]) -> None:
        """Add rows, writing full pages."""
        self.rows += len(rows)
        self._pending += rows
        while len(self._pending) >= self.page_rows:
            self._write(self._pending[: self.page_rows])
            self._pending = self._pending[self.page_rows :]

    def finish(self) -> None:
        """Write what is left."""
        if self._pending:
            self._write(self._pending)
            self._pending = []

    def page(self, number: int) -> list[list[object]]:
        """Return one page's rows; an empty list beyond the last."""
        if not 0 <= number < len(self.offsets):
            return []
        with self.path.open("rb") as source:
            source.seek(self.offsets[number])
            rows: list[list[object]] = json.loads(source.readline())
        return rows

    def remove(self) -> None:
        """Delete the file; it has no page any more."""
        self.path.unlink(missing_ok=True)
        self.size = 0
        self.offsets.clear()

    def _write(self, rows: list[list[object]]) -> None:
        line = json.dumps(rows, ensure_ascii=False).encode() + b"\n"
        with self.path.open("ab") as out:
            out.write(line)
        self.offsets.append(self.size)
        self.size += len(line)
