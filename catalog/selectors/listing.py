"""Lists of tables to slice: keys first, then only the rows that are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from catalog.access.policy import Principal
from catalog.models import Table
from catalog.selectors.lookups import tables_by_ids
from catalog.selectors.paging import Window, keyset_window
from catalog.selectors.search import search_tables
from catalog.selectors.tables import TableFilter


@dataclass(frozen=True, slots=True)
class Ordered:
    """The tables of a query in its order. Two statements a slice."""

    rows: QuerySet[Table]

    def __getitem__(self, part: slice) -> Sequence[Table]:
        return tables_by_ids(list(self.rows.values_list("pk", flat=True)[part]))


@dataclass(frozen=True, slots=True)
class ByName:
    """The tables of a query by name, from where the last page ended."""

    rows: QuerySet[Table]

    def window(self, *, size: int, after: str, before: str) -> Window[Table]:
        return keyset_window(
            self.rows,
            order=("name", "id"),
            size=size,
            after=after,
            before=before,
            load=tables_by_ids,
        )


@dataclass(frozen=True, slots=True)
class Found:
    """The tables that a search finds, best first; each with its hit as `match`."""

    principal: Principal
    wanted: TableFilter

    def __getitem__(self, part: slice) -> Sequence[Table]:
        start = part.start or 0
        hits = search_tables(
            self.principal, self.wanted, limit=part.stop - start, offset=start
        )
        how = {hit.table_id: hit for hit in hits.items}
        rows: list[Any] = tables_by_ids(list(how))
        for row in rows:
            row.match = how[row.pk]
        return rows
