"""A few rows of a lake table, the one way for REST and pages.

From the table's files where their reader can; else by a statement of the caller's,
which somebody above runs (`registered`): this package must not know the gateway.
Who may see the rows is decided before.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from catalog.models import Table
from core.errors import TransientError
from ingest.pipelines.samples import Sample, plain, sample_of

# user, statement, most rows → rows; TransientError when they do not come in time
Query = Callable[[str, str, int], list[list[Any]]]


@dataclass(slots=True)
class Registered:
    """Filled once at start by whoever composes the product."""

    query: Query | None = None


registered = Registered()


def sample_for(user: str, table: Table, *, limit: int) -> Sample:
    """At most `limit` alive rows as they are now; values have the same form either
    way. TransientError when neither way answers in time."""
    try:
        return sample_of(table, limit=limit)
    except TransientError:
        if registered.query is None:
            raise
    columns = [(c.name, c.type) for c in table.columns.order_by("position")]
    chosen = ", ".join(_chosen(name, kind) for name, kind in columns)
    sql = f"SELECT {chosen} FROM `{table.database.name}`.`{table.name}` LIMIT {limit}"
    kinds = [kind for _, kind in columns]
    rows = [
        [as_sampled(value, kind) for value, kind in zip(row, kinds, strict=True)]
        for row in registered.query(user, sql, limit)
    ]
    return Sample(columns, rows)


def _chosen(name: str, kind: str) -> str:
    # arrays come as text; without to_json a quote within an item is not escaped
    return f"to_json(`{name}`) AS `{name}`" if kind == "array<string>" else f"`{name}`"


def as_sampled(value: Any, kind: str) -> Any:
    """A value of a statement's result in the form that a value of a file has."""
    if not isinstance(value, str):
        return value
    try:
        if kind.startswith("timestamp"):
            moment = dt.datetime.fromisoformat(value)
            return plain(moment.replace(tzinfo=dt.UTC if kind == "timestamp" else None))
        if kind == "binary":
            return plain(bytes.fromhex(value))
        if kind.startswith("array<"):
            return _items(value, kind.removeprefix("array<").removesuffix(">"))
    except ValueError:
        return plain(value)
    return plain(value)


def _items(text: str, kind: str) -> Any:
    # decimals stay as they are written
    as_float = float if kind in {"float", "double"} else str
    as_int = str if kind.startswith("decimal") else int
    items = json.loads(text, parse_float=as_float, parse_int=as_int)
    return [as_sampled(plain(item), kind) for item in items]
