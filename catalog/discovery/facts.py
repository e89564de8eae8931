"""What discovery knows about a source table, read back from the catalog as values."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from operator import attrgetter

from catalog.models import Column as ColumnRow
from catalog.models import Table
from catalog.schema.source_log import TableLog
from catalog.schema.types import Column, TableSchema
from core.sentences import restored

NOT_ANALYSED = "not_analysed"


_LISTS = ("identity", "left_out", "unread", "lesser_parts", "untold")


def log_of(table: Table) -> TableLog | None:
    """What its source's log has of a table, as the last discovery saw it."""
    kept = table.identity.get("log")
    if kept is None:
        return None
    lists = {name: tuple(kept.get(name, ())) for name in _LISTS}
    unfit = restored(kept.get("unfit", ""))
    return TableLog(**{**kept, **lists, "unfit": unfit})


def known_rows(table: Table) -> int | None:
    """The estimate, where the source ever made one; what is guessed from the size of a
    table that was never analysed serves planning only."""
    if table.kind == Table.LAKE:
        return table.estimated_rows or None
    return None if table.identity.get(NOT_ANALYSED) else table.estimated_rows


# A row of the catalogue has them by the same names.
_COLUMN = tuple(each.name for each in fields(Column))
_values = attrgetter(*_COLUMN)


def schema_of(table: Table) -> TableSchema:
    """The columns of a catalog row, of a source or of the lake, as values."""
    return TableSchema(tuple(Column(*_values(row)) for row in table.columns.all()))


def schemas_of(tables: Collection[Table]) -> dict[int, TableSchema]:
    """The same of thousands, by their ids: one statement, and columns as values at
    once."""
    columns: dict[int, list[Column]] = {table.pk: [] for table in tables}
    rows = ColumnRow.objects.filter(table__in=list(columns))
    for table_id, *values in rows.order_by("table_id", "position").values_list(
        "table_id", *_COLUMN
    ):
        columns[table_id].append(Column(*values))
    return {pk: TableSchema(tuple(found)) for pk, found in columns.items()}
