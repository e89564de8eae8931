"""Which column of a sealed file is which, whatever the plan says meanwhile.

A file's columns have aliases (c0, c1, …) by their place in the plan of its day; a later
plan may have others, or the same in another order. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catalog.schema.widening import widens_in_place
from core.errors import TerminalError
from ingest.contract.epochs import Seal, SealedColumn, SealedFile
from ingest.contract.table import ColumnSpec, TableSpec
from ingest.sources.select import SelectedColumn, Selection, mask_of


@dataclass(frozen=True, slots=True)
class StagedColumn:
    """Where a column of the plan is in a file: its alias there, "" = the source table
    did not have it then. type: what the plan wants, alias_now: of the plan."""

    alias: str
    alias_now: str
    type: str


def columns_of(
    selection: Selection, columns: Sequence[ColumnSpec]
) -> tuple[SealedColumn, ...]:
    """What a seal says of a file that was read by this selection."""
    return tuple(
        SealedColumn(selected.alias, column.source_name, column.type, selected.bit)
        for selected, column in zip(selection.columns, columns, strict=True)
    )


def selection_in(file: SealedFile) -> Selection:
    """The columns as that file has them, by their source names."""
    selected = tuple(
        SelectedColumn(c.alias, c.source_name, c.type, "", c.bit) for c in file.columns
    )
    masks = max((mask_of(c.bit)[0] + 1 for c in file.columns if c.bit >= 0), default=0)
    return Selection(selected, ("",) * masks)


def match_columns(
    seal: Seal, file: SealedFile, table: TableSpec, now: Selection
) -> tuple[StagedColumn, ...]:
    """Each column of the plan in that file, by name. TerminalError `epoch_unreadable`
    when one is missing that the source table had, or changed its meaning."""
    sealed = {c.source_name: c for c in file.columns}
    version = seal.schema_versions.get(str(table.table_id), 0)
    found = []
    for selected, column in zip(now.columns, table.columns, strict=True):
        there = sealed.get(column.source_name)
        if there is None:
            # a column that the plan took up later. Rows as they are come again with it,
            # changes do not
            is_lost = file.has_changes and version == table.schema_version
            if is_lost or column.source_name in table.key:
                raise _unreadable(seal, table, f"lacks column {column.source_name}")
        elif there.type != column.type and not widens_in_place(there.type, column.type):
            change = f"{there.type} there and {column.type} in the plan"
            raise _unreadable(seal, table, f"has {column.source_name} as {change}")
        alias = there.alias if there else ""
        found.append(StagedColumn(alias, selected.alias, column.type))
    return tuple(found)


def _unreadable(seal: Seal, table: TableSpec, what: str) -> TerminalError:
    return TerminalError(
        f"epoch {seal.epoch} of {table.database}.{table.name} {what}. Nothing was"
        " written",
        code="epoch_unreadable",
        hint="resync the table",
    )
