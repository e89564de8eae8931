"""What rows of a log have that their table's plan has not decided about. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.schema.widening import widens_in_place
from ingest.contract.table import SealedColumn, TableSpec


def ahead_of(table: TableSpec, there: Sequence[SealedColumn]) -> tuple[str, ...]:
    """Source names of columns that the plan neither has nor leaves out, and of those
    that it has in a narrower type: rows with them wait for it."""
    planned = {column.source_name: column.type for column in table.columns}
    return tuple(
        column.source_name
        for column in there
        if (
            widens_in_place(planned[column.source_name], column.type)
            if column.source_name in planned
            else column.source_name not in table.left_out
        )
    )
