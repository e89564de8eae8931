"""What a source table was at each moment of a run, and what its lake table is.

The source is read past the product; the lake by hudi-rs. Values are compared as text,
which both sides give in one form.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from hudi import HudiTableBuilder

from ingest.contract.table import ColumnSpec, TableSpec
from tests.hostile.source import SIDES, SOURCE_ERRORS, Side
from tests.spark.lake_bench import LakeBench

Key = tuple[str | None, ...]
Values = Mapping[str, str | None]
# rows of one key side by side: more than one where the source says so
State = dict[Key, list[Values]]
_MISSING = {"42P01", 1146}


class History:
    """The states of a source table, newest last, read without waiting for a lock."""

    def __init__(self, bench: LakeBench, table: TableSpec) -> None:
        self.states: list[State] = []
        self._bench, self._table = bench, table
        self._side: Side = SIDES[bench.source.kind]
        self._link = self._side.connect(bench, self._side.no_wait)
        self._lock = threading.Lock()

    def look(self) -> None:
        """Adds the present state, unless a lock hides it: nobody commits then."""
        with self._lock:
            for _ in range(3):  # a column may go between the two questions
                try:
                    self.states.append(self._read())
                except SOURCE_ERRORS as error:
                    code = getattr(error, "sqlstate", None) or error.args[0]
                    if code in _MISSING:
                        self.states.append({})
                        return
                else:
                    return

    def close(self) -> None:
        self._link.close()

    def ever(self) -> set[Key]:
        return {key for state in self.states for key in state}

    def _read(self) -> State:
        table = self._table
        present = set(self._columns())
        columns = [c for c in table.columns if c.source_name in present]
        pairs = [(c.source_name, c.type) for c in columns]
        name = table.source_table
        return state_of(table, columns, self._side.rows(self._link, name, pairs))

    def _columns(self) -> list[str]:
        name, schema = self._table.source_table, self._table.source_schema
        if self._side.kind == "postgresql":
            sql = (
                "SELECT attname FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped"
                f" AND attrelid = '{schema}.{name}'::regclass"
            )
        else:
            sql = f"SHOW COLUMNS FROM {name}"
        return [str(row[0]) for row in self._link.run(sql)]


def state_of(
    table: TableSpec, columns: Sequence[ColumnSpec], rows: Sequence[Sequence[Any]]
) -> State:
    found: State = {}
    for row in rows:
        texts = (None if value is None else str(value) for value in row)
        values = dict(zip((c.name for c in columns), texts, strict=True))
        found.setdefault(_key(table, values), []).append(values)
    return found


def lake_state(table: TableSpec) -> State:
    """Every row that a reader of the lake sees now."""
    found: State = {}
    for batch in HudiTableBuilder.from_base_uri(table.path).build().read():
        lists = [_texts(batch, column) for column in table.columns]
        for row in zip(*lists, strict=True):
            values = dict(zip((c.name for c in table.columns), row, strict=True))
            found.setdefault(_key(table, values), []).append(values)
    return found


def _texts(batch: Any, column: ColumnSpec) -> list[str | None]:
    place = batch.schema.get_field_index(column.name)
    if place < 0:
        return [None] * batch.num_rows
    values = batch.column(place)
    if column.type.startswith("timestamp"):
        values = values.cast("int64")
    return [None if v is None else _text(v) for v in values.to_pylist()]


def _text(value: object) -> str:
    """As sources write it."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if isinstance(value, list):
        return "{" + ",".join(_text(v) for v in value) + "}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _key(table: TableSpec, values: Values) -> Key:
    names = {c.source_name: c.name for c in table.columns}
    return tuple(values.get(names[k]) for k in table.key)


def is_same(lake: Values, source: Values) -> bool:
    """A column that the source has no more is not compared."""
    return all(lake.get(name) == value for name, value in source.items())
