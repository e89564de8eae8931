"""Writes what discovery found into the catalog: bulk upserts, one page at a time.

Writing the same page twice changes nothing. Knows rows, not sources or jobs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django.db import connection, transaction

from catalog.discovery.facts import NOT_ANALYSED
from catalog.extensions import registered
from catalog.models import Column, Database, Datasource, SchemaVersion, Table
from catalog.schema.diff import columns_as_json, fingerprint
from catalog.sources.port import SYNCED_KINDS, DiscoveredTable
from catalog.sources.registry import kind_named
from core.sentences import Sentence, stored

DISCOVERED, UNSUPPORTED = "DISCOVERED", "UNSUPPORTED"
NO_PRIVILEGE, VANISHED = "NO_PRIVILEGE", "VANISHED"
# A pattern of an onboarding passes over these.
NOT_SYNCED = (UNSUPPORTED, NO_PRIVILEGE, VANISHED)
HIDES_ROWS = "row security at the source hides rows from the datasource's user"
# What a discovery fills.
_FILLED = (Database, Table, Column, SchemaVersion)
# What a discovery knows of the server, kept with each table.
OF_SERVER = ("sees_all_transactions", "is_standby", "log_lacks", "zone_delay")
# Only these are discovery's to change; any other status of a source table stays.
_OWN_STATUS = frozenset({DISCOVERED, UNSUPPORTED, NO_PRIVILEGE, VANISHED})

_UPDATED = (
    "comment",
    "record_key",
    "identity",
    "schema_version",
    "schema_fingerprint",
    "estimated_rows",
    "estimated_bytes",
    "status",
    "status_reason",
    "seen_at",
)


@dataclass(frozen=True, slots=True)
class PageCounts:
    """What a page brought: tables new, changed in columns or key, unsupported.

    written  rows of tables and columns that are new to the catalog
    """

    tables: int = 0
    new: int = 0
    changed: int = 0
    columns_not_synced: int = 0
    written: int = 0


def save_databases(
    datasource: Datasource, names: Iterable[str], *, seen_at: datetime
) -> None:
    """Rows for all databases (schemas), also those without a table."""
    Database.objects.bulk_create(
        [
            Database(datasource=datasource, name=name, discovered_at=seen_at)
            for name in names
        ],
        update_conflicts=True,
        unique_fields=["datasource", "name"],
        update_fields=["discovered_at"],
        batch_size=1_000,
    )


def save_page(
    datasource: Datasource,
    found: Sequence[DiscoveredTable],
    *,
    seen_at: datetime,
    of_server: Mapping[str, Any],
) -> PageCounts:
    """Upsert tables, their columns and schema versions; call inside a transaction.

    of_server  kept with each table: what the login sees and what the server is
    """
    ids = _database_ids(datasource, {t.database for t in found}, seen_at=seen_at)
    known = {
        (table.database_id, table.name): table
        for table in Table.objects.select_for_update().filter(
            database__in=ids.values(), name__in={t.name for t in found}
        )
    }
    rows: list[Table] = []
    rewrite: list[tuple[Table, DiscoveredTable]] = []
    new = changed = 0
    for table in found:
        old = known.get((ids[table.database], table.name))
        row = _row(table, ids[table.database], old, seen_at=seen_at)
        row.identity |= of_server
        row.status_reason = row.status_reason or _what_is_hidden(table, datasource)
        rows.append(row)
        is_same = old and old.identity.get("digest") == row.identity["digest"]
        if not is_same:
            rewrite.append((row, table))
        new += old is None
        changed += old is not None and old.schema_version != row.schema_version
    Table.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["database", "name"],
        update_fields=_UPDATED,
    )
    _write_columns(rewrite)
    _tell(row.pk for row in rows if _is_altered(row, known))
    return PageCounts(
        tables=len(rows),
        new=new,
        changed=changed,
        columns_not_synced=sum(len(t.schema.unsupported) for t in found),
        written=new + sum(len(t.schema.columns) for _, t in rewrite),
    )


def finish(datasource: Datasource, *, seen_at: datetime) -> int:
    """Mark what this discovery did not see; the number of tables that vanished.

    Rows stay: an onboarding or a grant may point to them. Empty databases go.
    """
    # Ids, not a join: right after a first discovery the planner knows no statistics.
    databases = list(datasource.databases.values_list("pk", flat=True))
    mine = Table.objects.filter(database__in=databases, kind=Table.SOURCE)
    gone = (
        mine.exclude(seen_at=seen_at)
        .exclude(status=VANISHED)
        .update(
            status=VANISHED,
            status_reason="the last discovery did not find it at the source",
        )
    )
    if gone:
        for hook in registered.altered:
            hook(mine.filter(status=VANISHED))
    old = datasource.databases.exclude(discovered_at=seen_at)
    used = Table.objects.filter(database__in=old).values("database")
    old.exclude(pk__in=used).delete()
    Datasource.objects.filter(pk=datasource.pk).update(
        discovered_at=seen_at, table_count=mine.filter(seen_at=seen_at).count()
    )
    return gone


def _is_altered(row: Table, known: Mapping[tuple[int, str], Table]) -> bool:
    old = known.get((row.database_id, row.name))
    if old is None:
        return False
    is_back = old.status == VANISHED and row.status != VANISHED
    return is_back or old.schema_version != row.schema_version


def _tell(table_ids: Iterable[int]) -> None:
    if ids := list(table_ids):
        for hook in registered.altered:
            hook(Table.objects.filter(pk__in=ids))


def refresh_statistics() -> None:
    """Tell the planner how large the catalog is now; autovacuum would be minutes late.

    Call outside of transactions. Tables that another transaction holds locked are left
    out. Errors of the database pass through.
    """
    if connection.vendor != "postgresql":
        return
    for model in _FILLED:
        name = connection.ops.quote_name(model._meta.db_table)
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"ANALYZE (SKIP_LOCKED) {name}")


def _database_ids(
    datasource: Datasource, names: set[str], *, seen_at: datetime
) -> dict[str, int]:
    """Ids by name; a schema made after the first page gets its row here."""
    query = Database.objects.filter(datasource=datasource, name__in=names)
    ids = dict(query.values_list("name", "id"))
    if missing := names - ids.keys():
        save_databases(datasource, sorted(missing), seen_at=seen_at)
        ids = dict(query.values_list("name", "id"))
    return ids


def _row(
    found: DiscoveredTable,
    database_id: int,
    old: Table | None,
    *,
    seen_at: datetime,
) -> Table:
    mark = fingerprint(found.schema)
    version = 1
    if old is not None:
        is_changed = old.schema_fingerprint not in {"", mark}
        version = old.schema_version + is_changed
    status, reason = _status(found, old)
    return Table(
        database_id=database_id,
        name=found.name,
        source_name=found.name,
        kind=Table.SOURCE,
        comment=found.comment,
        record_key=list(found.schema.primary_key),
        identity=_facts(found),
        schema_version=version,
        schema_fingerprint=mark,
        estimated_rows=found.estimated_rows,
        estimated_bytes=found.estimated_bytes,
        status=status,
        status_reason=reason,
        seen_at=seen_at,
    )


def _status(found: DiscoveredTable, old: Table | None) -> tuple[str, str]:
    if old is not None and old.status not in _OWN_STATUS:
        return old.status, old.status_reason
    if found.kind not in SYNCED_KINDS:
        return UNSUPPORTED, Sentence(
            "a %(kind)s is not synced in this release", kind=found.kind
        )
    if not found.is_readable:
        return NO_PRIVILEGE, "the datasource's user may not SELECT it"
    if found.hides_rows:
        return NO_PRIVILEGE, HIDES_ROWS
    return DISCOVERED, ""


def _what_is_hidden(found: DiscoveredTable, datasource: Datasource) -> str:
    privileges = kind_named(datasource.kind).privileges
    names = datasource.username, found.database, found.name
    if found.hides_indexes and found.is_readable:
        return Sentence(
            "the datasource's user has rights to some columns only, so the"
            " source shows it no others and no keys: %(structure_grant)s"
            " shows both and lets it read no more; then discover again",
            structure_grant=privileges.structure_grant(*names),
        )
    if not found.hidden:
        return ""
    grant = privileges.select_grant(*names, found.hidden)
    return Sentence(
        "columns that the datasource's user may not SELECT are left out: %(hidden)s."
        " To have them, run %(grant)s at the source and discover again",
        hidden=", ".join(found.hidden),
        grant=grant,
    )


def _facts(found: DiscoveredTable) -> dict[str, Any]:
    return {
        "relation": found.kind,
        "unique_indexes": [list(names) for names in found.unique_indexes],
        "indexed": list(found.indexed),
        "traits": sorted(found.traits),
        "key_forms": dict(found.key_forms),
        "hidden": list(found.hidden),
        "hidden_key": list(found.hidden_key),
        "hides_indexes": found.hides_indexes,
        "log": found.log and asdict(found.log) | {"unfit": stored(found.log.unfit)},
        "digest": _digest(found),
        **({} if found.is_analysed else {NOT_ANALYSED: True}),
    }


def _digest(found: DiscoveredTable) -> str:
    """Differs when anything written to Column rows does, comments included."""
    text = json.dumps(columns_as_json(found.schema))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _write_columns(tables: Sequence[tuple[Table, DiscoveredTable]]) -> None:
    Column.objects.filter(table__in=[row.pk for row, _ in tables]).delete()
    Column.objects.bulk_create(
        [
            Column(table=row, position=position, **column)
            for row, table in tables
            for position, column in enumerate(columns_as_json(table.schema), start=1)
        ]
    )
    SchemaVersion.objects.bulk_create(
        [
            SchemaVersion(
                table=row,
                version=row.schema_version,
                columns=columns_as_json(table.schema),
            )
            for row, table in tables
        ],
        ignore_conflicts=True,
    )
