"""What discovery knows about a source table, read back from the catalog as values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

from catalog.models import Column as ColumnRow
from catalog.models import Table
from catalog.schema.source_log import Lack, TableLog
from catalog.schema.types import Column, TableSchema
from core.sentences import restored

NOT_ANALYSED = "not_analysed"


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """A source table as the last discovery saw it.

    unique_indexes  column names per unique index over not-null columns, key excluded
    indexed         columns that lead some index
    estimated_bytes of the rows, without indexes
    sees_all_transactions  whether the login had the right to; None = not known
    relation, traits, key_forms  see `DiscoveredTable`
    hidden, hidden_key, hides_indexes  see `DiscoveredTable`
    is_standby, log_lacks, zone_delay  see `Overview`
    log             see `DiscoveredTable`
    """

    schema: TableSchema
    estimated_rows: int
    estimated_bytes: int
    unique_indexes: tuple[tuple[str, ...], ...]
    indexed: frozenset[str]
    fingerprint: str
    sees_all_transactions: bool | None
    relation: str
    traits: frozenset[str]
    key_forms: Mapping[str, str]
    hidden: tuple[str, ...]
    hidden_key: tuple[str, ...]
    hides_indexes: bool
    is_standby: bool | None
    log_lacks: tuple[Lack, ...]
    zone_delay: int
    log: TableLog | None


def source_facts(table: Table, schema: TableSchema | None = None) -> SourceFacts:
    """Facts of a row of kind source; one query unless its schema is given, or columns
    are prefetched."""
    kept = table.identity
    return SourceFacts(
        schema=schema_of(table) if schema is None else schema,
        estimated_rows=table.estimated_rows,
        estimated_bytes=table.estimated_bytes,
        unique_indexes=tuple(tuple(n) for n in kept.get("unique_indexes", ())),
        indexed=frozenset(kept.get("indexed", ())),
        fingerprint=table.schema_fingerprint,
        sees_all_transactions=kept.get("sees_all_transactions"),
        relation=kept.get("relation", "table"),
        traits=frozenset(kept.get("traits", ())),
        key_forms=kept.get("key_forms", {}),
        hidden=tuple(kept.get("hidden", ())),
        hidden_key=tuple(kept.get("hidden_key", ())),
        hides_indexes=kept.get("hides_indexes", False),
        is_standby=kept.get("is_standby"),
        log_lacks=tuple(
            Lack(restored(reason), statement)
            for reason, statement in kept.get("log_lacks") or ()
        ),
        zone_delay=kept.get("zone_delay", 0),
        log=_log_of(kept.get("log")),
    )


_LISTS = ("identity", "left_out", "lesser_parts", "untold")


def _log_of(kept: Mapping[str, Any] | None) -> TableLog | None:
    if kept is None:
        return None
    lists = {name: tuple(kept.get(name, ())) for name in _LISTS}
    unfit = restored(kept.get("unfit", ""))
    return TableLog(**{**kept, **lists, "unfit": unfit})


def log_of(table: Table) -> TableLog:
    """What its source's log has of a table, as the last discovery saw it."""
    return _log_of(table.identity.get("log")) or TableLog()


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
