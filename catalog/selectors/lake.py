"""What the gateway asks about lake tables: where one lies, which match a pattern.

Patterns are JDBC's: `%`, `_`, a backslash escapes; `*` counts as `%`; "" or None
match everything. Lake names are lower case, so patterns fold to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from django.db.models import CharField, F, Lookup, QuerySet
from django.db.models.sql.compiler import SQLCompiler

from catalog.access.policy import Principal
from catalog.access.rules import limits_for
from catalog.access.table_rights import Limits
from catalog.access.visibility import visible_databases
from catalog.like import escaped, for_sql, is_everything, matcher
from catalog.models import Column, Database, Table
from catalog.names import LAKE
from catalog.selectors.lake_sql import Place, matching_tables
from catalog.selectors.locations import LakeLocation


@dataclass(frozen=True, slots=True)
class LakeTable:
    """A queryable lake table; `(database, name)` is its place in the order."""

    database: str
    name: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """A column as queries see it. `position` counts from 1; `key` as in the catalog."""

    database: str
    table: str
    name: str
    type: str
    position: int
    nullable: bool = True
    key: int = 0
    comment: str = ""


HUDI_COLUMNS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
SLUICE_COLUMNS = (
    ("_sluice_seq", "bigint", False),
    ("_sluice_deleted", "boolean", True),
)
KEY_COLUMN = ("_sluice_key", "string", False)
COUNT_COLUMN = ("_sluice_count", "bigint", True)
DAY_COLUMN = ("_sluice_day", "date", True)


@CharField.register_lookup
class Like(Lookup):
    """`field__like=pattern`: SQL's LIKE with its wildcards, pattern bound."""

    lookup_name = "like"

    def as_sql(
        self, compiler: SQLCompiler, connection: Any
    ) -> tuple[str, tuple[str | int, ...]]:
        left, left_params = self.process_lhs(compiler, connection)
        right, right_params = self.process_rhs(compiler, connection)
        return f"{left} LIKE {right}", (*left_params, *right_params)


def lake_table_location(database: str, table: str) -> LakeLocation | None:
    """The place of a queryable lake table, None when there is none. One statement.

    Says nothing about rights: the engine's Guard decides.
    """
    found = (
        _queryable()
        .filter(database__name=database.lower(), name=table.lower())
        .values_list("path", "schema_version")
        .first()
    )
    if found is None:
        return None
    return LakeLocation(path=found[0], schema_version=found[1])


def lake_name_of_source(datasource: str, database: str, table: str) -> str | None:
    """`db.table` of the lake's copy of a source's table under its proposed name.

    Says nothing about rights. None when there is none, or when its lake database was
    named by hand. One statement.
    """
    found = (
        _queryable()
        .filter(
            source_name=f"{database}.{table}",
            database__name__in=(datasource, f"{datasource}_{database}".lower()),
        )
        .values_list("database__name", "name")
        .first()
    )
    return f"{found[0]}.{found[1]}" if found else None


def lake_databases_matching(
    principal: Principal, pattern: str | None, *, limit: int
) -> list[str]:
    """Names of visible lake databases, ordered. One statement."""
    rows = Database.objects.filter(
        visible_databases(principal, for_sql=True), datasource__name=LAKE
    )
    if pattern is not None and not is_everything(pattern):
        rows = rows.filter(name__like=for_sql(pattern.lower()))
    return list(rows.order_by("name").values_list("name", flat=True)[:limit])


def lake_tables_matching(
    principal: Principal,
    schema_pattern: str | None,
    table_pattern: str | None,
    limit: int,
    after: Place | None = None,
) -> list[LakeTable]:
    """Visible queryable tables after `after`, ordered by (database, name)."""
    found = matching_tables(principal, (schema_pattern, table_pattern), limit, after)
    return [LakeTable(*row[1:]) for row in found]


def lake_columns_page(
    principal: Principal,
    patterns: tuple[str | None, str | None, str | None],
    limit: int,
    after: Place | None = None,
) -> tuple[list[LakeColumn], Place | None]:
    """Columns of at most `limit` tables after `after`, and where to go on.

    patterns: of database, table and column. `_hoodie_*` first, then the source's, then
    `_sluice_*`, in table and column order, without those that do not exist for the
    principal. None at the end. At most four statements.
    """
    tables = matching_tables(principal, patterns[:2], limit, after)
    columns = Column.objects.filter(table__in=[row[0] for row in tables]).annotate(
        partition_by=F("table__partition_by")
    )
    by_table: dict[int, list[Any]] = {}
    for column in columns.order_by("table", "position") if tables else ():
        by_table.setdefault(column.table_id, []).append(column)
    matches = matcher(patterns[2])
    limits = limits_for(principal)
    found = [
        column
        for pk, *table in tables
        for column in _left(
            as_seen(LakeTable(*table), by_table.get(pk, [])), limits, by_table.get(pk)
        )
        if matches(column.name)
    ]
    return found, tables[-1][1:3] if len(tables) == limit else None


def lake_columns_of(
    principal: Principal, database: str, table: str
) -> list[LakeColumn]:
    """All columns of one visible table as queries see them; [] when there is none."""
    patterns = (escaped(database), escaped(table), None)
    return lake_columns_page(principal, patterns, 1)[0]


def as_seen(table: LakeTable, columns: list[Any]) -> list[LakeColumn]:
    """The catalog's columns, each with the `partition_by` of its table, and those that
    Hudi and Sluice add."""
    seen: list[tuple[str, str, bool, int, str]] = [
        (name, "string", True, 0, "") for name in HUDI_COLUMNS
    ]
    seen += [(c.name, c.type, c.nullable, c.key, c.comment) for c in columns if c.type]
    added = (*_key_columns(columns), *_day_column(columns), *SLUICE_COLUMNS)
    seen += [(name, kind, nullable, 0, "") for name, kind, nullable in added]
    return [
        LakeColumn(
            database=table.database,
            table=table.name,
            name=name,
            type=kind,
            position=position,
            nullable=nullable,
            key=key,
            comment=comment,
        )
        for position, (name, kind, nullable, key, comment) in enumerate(seen, start=1)
    ]


def _left(
    seen: list[LakeColumn], limits: Limits, columns: list[Any] | None
) -> list[LakeColumn]:
    """What the reader's rights leave of a table's columns, as the engine shows them."""
    if not seen or (on := limits.on(seen[0].database, seen[0].table)).is_whole:
        return seen
    has_own_key = not _key_columns(columns or [])
    keys = {c.name for c in columns or () if c.key}
    partitions = set(columns[0].partition_by) if columns else set()
    shows_keys = has_own_key and all(on.is_plain(name) for name in keys | partitions)
    left = [c for c in seen if on.shows(c.name, shows_keys=shows_keys)]
    return [replace(c, position=at) for at, c in enumerate(left, start=1)]


def _key_columns(columns: list[Any]) -> list[tuple[str, str, bool]]:
    """What ingest adds for a key that is not one column of a type it takes as it is."""
    key = [column for column in columns if column.key]
    if not key:
        return [KEY_COLUMN, COUNT_COLUMN]
    own = len(key) == 1 and (
        key[0].type in {"int", "bigint"} or key[0].source_type == "uuid"
    )
    return [] if own else [KEY_COLUMN]


def _day_column(columns: list[Any]) -> list[tuple[str, str, bool]]:
    """What ingest adds where the day of a timestamp is the partition."""
    name = DAY_COLUMN[0]
    return [DAY_COLUMN] if columns and name in columns[0].partition_by else []


def _queryable() -> QuerySet[Table]:
    return Table.objects.filter(
        database__datasource__name=LAKE, is_queryable=True
    ).exclude(path="")
