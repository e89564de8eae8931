"""Which followed tables have rows that were written since they were last read.

What a source's log is read for, and what of it is applied, is asked for all tables
every other second, and comes out of plans that change once a month. PostgreSQL gives a
row another place (`ctid`) whenever it is written, and keeps which transaction did so
(`xmin`); to tell both it reads none of the row's long values. Lake tables get a newer
moment all the time, so of them it reads what matters, which is short. Rows of a busy
table are written every second, though: of those a signature tells whether anything that
matters is another one, before a plan is decoded.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from django.db import connection

from ingest.planning.facts import LOG

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RowVersions:
    """Of all that a table's work is made of but for policies of its source.

    table_id  of the lake table
    text      another one whenever one of the rows was written
    health    the same of the table's health alone
    """

    table_id: int
    datasource_id: int
    text: str
    health: str


_OF_TABLES = """
FROM ingest_pipeline p
JOIN catalog_table lake ON lake.id = p.lake_table_id
JOIN catalog_database lake_database ON lake_database.id = lake.database_id
JOIN catalog_table source ON source.id = p.source_table_id
JOIN catalog_database d ON d.id = source.database_id
JOIN catalog_datasource s ON s.id = d.datasource_id
LEFT JOIN ingest_tablehealth health ON health.table_id = lake.id
WHERE p.capture = %s
"""
_VERSIONS = f"""
SELECT lake.id, d.datasource_id, md5(concat_ws(' ', p.xmin, p.ctid, lake.database_id,
  lake.schema_version, lake.name, lake.path, lake_database.xmin, lake_database.ctid,
  source.xmin, source.ctid, d.xmin, d.ctid, s.xmin, s.ctid, health.xmin, health.ctid)),
  concat_ws(' ', health.xmin, health.ctid)
{_OF_TABLES} AND p.state = ANY(%s) AND (%s OR d.datasource_id = ANY(%s))
ORDER BY lake.id
"""
# What a table's spec, and where its load is, are made of.
_SIGNATURES = f"""
SELECT lake.id, md5((p.plan, p.policy, p.state, p.load_name, p.bound, p.drift,
  p.status_reason, lake.schema_version, lake_database.name, lake.name, lake.path,
  d.name, source.name, s.name)::text)
{_OF_TABLES} AND lake.id = ANY(%s)
"""


def row_versions(
    states: Collection[str], sources: Collection[int] | None = None
) -> list[RowVersions]:
    """Tables in these states that follow a log, by their ids; None = of all sources."""
    given: list[Any] = [LOG, sorted(states), sources is None, list(sources or ())]
    with connection.cursor() as cursor:
        cursor.execute(_VERSIONS, given)
        return [RowVersions(*row) for row in cursor.fetchall()]


def _signatures(table_ids: Collection[int]) -> dict[int, str]:
    if not table_ids:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_SIGNATURES, [LOG, list(table_ids)])
        return dict(cursor.fetchall())


@dataclass(frozen=True, slots=True)
class _Known(Generic[T]):
    versions: RowVersions
    signature: str
    value: T


@dataclass(slots=True)
class MadeOfRows(Generic[T]):
    """What was made of tables' rows, by the ids of lake tables, until it has to be made
    again. One that was not put stays as it was, and is asked for again."""

    _known: dict[int, _Known[T]] = field(default_factory=dict)
    _now: dict[int, tuple[RowVersions, str]] = field(default_factory=dict)

    def get(self, table_id: int) -> T | None:
        known = self._known.get(table_id)
        return known.value if known else None

    def put(self, table_id: int, value: T) -> None:
        """Made of the rows that `compare` was told of last."""
        self._known[table_id] = _Known(*self._now[table_id], value)

    def drop(self, table_id: int) -> None:
        self._known.pop(table_id, None)

    def compare(
        self, rows: list[RowVersions], *, all_anew: bool
    ) -> tuple[list[int], list[int]]:
        """Which of these tables were written since, and which of them to make again.
        Others are forgotten."""
        known = self._known
        written = {
            row.table_id: row
            for row in rows
            if all_anew
            or row.table_id not in known
            or known[row.table_id].versions != row
        }
        found = _signatures(written)
        self._now = {pk: (written[pk], signature) for pk, signature in found.items()}
        again = []
        for pk, (versions, signature) in self._now.items():
            if all_anew or pk not in known or known[pk].signature != signature:
                again.append(pk)
            else:
                known[pk] = replace(known[pk], versions=versions)
        for pk in known.keys() - {row.table_id for row in rows}:
            del known[pk]
        return list(self._now), again
