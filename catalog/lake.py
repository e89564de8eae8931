"""The lake as a datasource: its one row, and the databases in it."""

from __future__ import annotations

from catalog.models import Database, Datasource
from catalog.names import LAKE


def lake_datasource() -> Datasource:
    """The row of the lake, made at need."""
    row, _ = Datasource.objects.get_or_create(name=LAKE, defaults={"kind": LAKE})
    return row


def lake_database(name: str) -> Database:
    """The lake database of that (already derived) name, made at need."""
    row, _ = Database.objects.get_or_create(datasource=lake_datasource(), name=name)
    return row
