"""A source's table as an engine of SQL reads it, and how the source is reached.

The name of the source's host is looked up each time, and every address is held against
the denied networks, as for jobs (`ingest.hosting`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from catalog.models import Column, Datasource, Table
from catalog.sources.access import access_for, resolved
from catalog.sources.tls import ca_file
from ingest.contract.table import ColumnSpec
from ingest.jobs.kinds import source_spec
from ingest.sources.connections import connections_of
from ingest.sources.live import described_access, described_columns, relation
from ingest.sources.port import SourceAccess

APPLICATION = "sluice:sql"
LONGEST_LOOK_UP = 5
_WHOLE_NUMBERS = frozenset({"int", "bigint"})


def live_table(table: Table, columns: Sequence[Column]) -> dict[str, Any]:
    """The engine's form of a discovered table; no secret is in it."""
    source = table.database.datasource
    specs = [
        (ColumnSpec(c.source_name, c.name, c.source_type, c.type), c.nullable)
        for c in columns
        if c.type
    ]
    described = described_columns(source.kind, specs)
    return {
        "parts": [source.name, table.database.name, table.name],
        "kind": source.kind,
        "relation": relation(source.kind, table.database.name, table.name),
        "columns": described,
        "split_by": _split_by(columns, described),
        "rows": max(table.estimated_rows, 0),
        "bytes": max(table.estimated_bytes, 0),
    }


def live_access(source: Datasource) -> dict[str, Any]:
    """With the password. SluiceError when the source cannot be reached by policy, or by
    name."""
    access = _access(source, APPLICATION)
    # the last connection is for a user who has none
    return described_access(
        access, connections=max(1, access.spec.max_parallel_reads) + 1
    )


def end_live(source: Datasource, mark: str) -> None:
    """What an engine that is gone has left there, by the mark of its statements."""
    access = _access(source, mark)
    connections_of(access).end_live(access)


def _access(source: Datasource, application: str) -> SourceAccess:
    access = access_for(source)
    seconds = min(access.connect_timeout, LONGEST_LOOK_UP)
    addresses = resolved(dataclasses.replace(access, connect_timeout=seconds))
    spec = source_spec(source)
    return SourceAccess(spec, access.password, application, addresses, ca_file() or "")


def _split_by(columns: Sequence[Column], described: list[dict[str, Any]]) -> str:
    """The key, where it is one whole number that the source orders as Spark does."""
    ordered = {c["name"] for c in described if c["ordered"]}
    key = [c for c in columns if c.key]
    is_one = len(key) == 1 and key[0].type in _WHOLE_NUMBERS
    return key[0].name if is_one and key[0].name in ordered else ""
