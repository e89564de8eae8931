"""What rows of a log have that their table's plan has not decided about. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.schema.widening import widens_in_place
from catalog.sources.registry import proposed_choice
from ingest.contract.table import ColumnSpec, SealedColumn, TableSpec


def ahead_of(
    table: TableSpec, there: Sequence[SealedColumn], gone: Sequence[str] = ()
) -> tuple[str, ...]:
    """Source names of columns that the plan neither has nor leaves out, and of those
    that it has in a narrower type, or still, though they are gone at the source: rows
    with them, or without these, wait for it."""
    planned = {column.source_name: column.type for column in table.columns}
    still = tuple(name for name in gone if name in planned)
    return still + tuple(
        column.source_name
        for column in there
        if (
            widens_in_place(planned[column.source_name], column.type)
            if column.source_name in planned
            else column.source_name not in table.left_out
        )
    )


def undecided(name: str, source_type: str, type: str, *, kind: str) -> ColumnSpec:
    """A column as a plan takes it that follows it. type: in the lake."""
    lossy = proposed_choice(source_type, type, kind=kind)
    return ColumnSpec(name, name, source_type, type, lossy)


def is_as_wide(planned: str, found: str) -> bool:
    """Whether rows of one lake type are read by a plan with the other: it follows, or
    went ahead."""
    return (
        planned == found
        or widens_in_place(planned, found)
        or widens_in_place(found, planned)
    )
