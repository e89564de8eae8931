"""What REST says of tables, as plain values: making objects of models out of a row and
its columns costs more than reading them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import BigIntegerField, Case, F, JSONField, QuerySet, When
from django.db.models.expressions import RawSQL
from django.db.models.fields.json import KT

from catalog.compiled import CompiledValues
from catalog.discovery.facts import NOT_ANALYSED
from catalog.models import Table
from catalog.selectors.lookups import TableLookup

_COLUMNS = """COALESCE((SELECT json_agg(json_build_object(
  'name', c.name, 'source_name', c.source_name, 'type', c.type,
  'source_type', c.source_type, 'nullable', c.nullable, 'key', c.key,
  'comment', c.comment) ORDER BY c.position)
 FROM catalog_column c WHERE c.table_id = catalog_table.id)::text, '[]')"""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A row of Table by its fields, with the names above it.

    columns     as REST shows them
    onboarding  id of the request that carries it
    capture     how it is synced, seen from either end
    lake_table  "database.table" of the lake table that a source's table feeds
    sync        state, reason, lake_table (id) of the sync that a source's table feeds
    partial_update_mode  of a lake table's pinned identity, empty = whole rows
    """

    id: int
    datasource: str
    database: str
    name: str
    source_name: str
    kind: str
    comment: str
    owner: str
    tags: list[str]
    columns: list[dict[str, Any]]
    record_key: list[str]
    cursor: str
    partition_by: list[Any]
    buckets: int
    status: str
    status_reason: str
    caught_up_at: datetime | None
    last_commit_instant: str
    last_commit_position: Any
    last_commit_epoch: int | None
    last_commit_at: datetime | None
    schema_version: int
    estimated_rows: int | None
    is_queryable: bool
    onboarding: UUID | None
    capture: str | None
    lake_table: str | None
    sync: dict[str, Any] | None
    partial_update_mode: str | None


_READ = {
    "datasource": F("database__datasource__name"),
    "database": F("database__name"),
    "columns": RawSQL(_COLUMNS, [], JSONField()),
    "partial_update_mode": KT("identity__partial_update_mode"),
    # a guess from the size of a table that was never analysed serves planning only
    "estimated_rows": Case(
        When(**{f"identity__{NOT_ANALYSED}": True}, then=None),
        default=F("estimated_rows"),
        output_field=BigIntegerField(),
    ),
}


def facts_of(rows: QuerySet[Table]) -> QuerySet[Table, Any]:
    """The fields of TableFacts of these rows, in order."""
    # names of fields and relations may not be annotated over: read under others
    read = {f"{name}_read": expression for name, expression in _READ.items()}
    names = [one.name for one in fields(TableFacts)]
    chosen = [f"{name}_read" if name in _READ else name for name in names]
    return rows.select_related(None).annotate(**read).values_list(*chosen)


def _compiled(
    rows: QuerySet[Table], given: Sequence[object]
) -> CompiledValues[TableFacts]:
    return CompiledValues(facts_of(rows), given, TableFacts)


_found: TableLookup[TableFacts] = TableLookup(_compiled)
facts_for, facts_at, facts_named = _found.by_id, _found.at, _found.named
facts_by_ids = _found.by_ids
