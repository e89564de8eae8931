"""How the columns of a table came to be what they are: its schema versions as steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from catalog.models import SchemaVersion
from catalog.schema.diff import SchemaChange, columns_from_json, diff


@dataclass(frozen=True, slots=True)
class SchemaStep:
    """One version. columns: how many it has. changes: against the version before; ()
    for the first."""

    version: int
    since: datetime
    columns: int
    changes: tuple[SchemaChange, ...]

    @property
    def is_breaking(self) -> bool:
        return any(change.is_breaking for change in self.changes)


def schema_versions(table_id: int) -> QuerySet[SchemaVersion]:
    return SchemaVersion.objects.filter(table=table_id)


def schema_steps(keys: Sequence[int]) -> list[SchemaStep]:
    """Steps of these rows of one table, in their order, in two statements."""
    by_key = SchemaVersion.objects.in_bulk(keys)
    rows = [by_key[key] for key in keys if key in by_key]
    if not rows:
        return []
    schemas = {row.version: columns_from_json(row.columns) for row in rows}
    before = {version - 1 for version in schemas} - set(schemas)
    found = schema_versions(rows[0].table_id).filter(version__in=before)
    schemas |= {row.version: columns_from_json(row.columns) for row in found}
    return [
        SchemaStep(
            row.version,
            row.since,
            len(row.columns),
            diff(schemas[row.version - 1], schemas[row.version])
            if row.version - 1 in schemas
            else (),
        )
        for row in rows
    ]
