"""The rows of the table picker, a stretch at a time."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from catalog.discovery.choosing import why_not
from catalog.discovery.store import NOT_SYNCED
from catalog.models import Table
from frontend.templatetags.figures import rows_of, size

STRETCH = 200


def stretch_of(rows: QuerySet[Table], offset: int) -> list[dict[str, Any]]:
    """`STRETCH` tables from `offset`, as the list shows them."""
    return [_item(table) for table in rows[offset : offset + STRETCH]]


def _item(table: Table) -> dict[str, Any]:
    return {
        "database": table.database.name,
        "name": table.name,
        "comment": table.comment[:200],
        "rows": rows_of(table),
        "size": size(table.estimated_bytes),
        "carried": getattr(table, "carried_as", "") or "",
        "cannot": table.status_reason if table.status in NOT_SYNCED else "",
        "way_out": why_not(table).way_out if table.status in NOT_SYNCED else "",
    }
