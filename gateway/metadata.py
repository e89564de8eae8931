"""Answers to the metadata calls, from the catalog, filtered by what the user may see.

Patterns are JDBC's (`%`, `_`, backslash escapes); impyla's `.*` counts as `%`. Must
not know sockets or engines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from catalog.like import matcher
from catalog.selectors.lake import LakeColumn
from catalog.selectors.live import LiveName
from core.errors import InvalidRequest
from gateway.engines.port import EngineColumn
from gateway.hs2 import messages, metadata
from gateway.hs2.values import ColumnDesc, OperationType
from gateway.operation import LocalRows, Operation
from gateway.store import Store

CATALOG = "lake"
DEFAULT_DATABASE = "default"
MOST_ROWS = 200_000
# a name of 255 characters with each of them escaped
LONGEST_PATTERN = 512
FIRST_TABLES, NEXT_TABLES = 1_000, 10_000
_TABLE = "TABLE"
_NOT_NULL, _NULLABLE = 0, 1
Rows = list[tuple[Any, ...]]

# what GetFunctions lists for editors
_SPARK_FUNCTIONS = """
abs acos add_months approx_count_distinct array array_contains array_distinct
array_join array_max array_min array_position array_size array_sort ascii asin
atan avg base64 bit_and bit_or bround cardinality cast ceil ceiling char_length
coalesce collect_list collect_set concat concat_ws corr cos count count_if
covar_pop crc32 cume_dist current_catalog current_database current_date
current_timestamp current_user date date_add date_format date_sub date_trunc
datediff day dayofmonth dayofweek dayofyear decode dense_rank element_at encode
every exists exp explode filter first first_value flatten floor format_number
from_json from_unixtime get_json_object greatest grouping hash hex hour if
ifnull initcap instr isnan isnotnull isnull json_tuple lag last last_day
last_value lcase lead least left length ln locate log log10 lower lpad ltrim
make_date map max max_by md5 mean min min_by minute mod month months_between
named_struct next_day now nth_value ntile nullif nvl percent_rank percentile
percentile_approx pi posexplode pow power quarter radians rand rank
regexp_extract regexp_replace repeat replace reverse right rlike round
row_number rpad rtrim second sequence sha1 sha2 sign sin size sort_array split
sqrt stddev struct substr substring sum tan timestamp to_date to_json
to_timestamp transform translate trim trunc typeof ucase unbase64 unhex
unix_timestamp upper uuid variance weekofyear when window xxhash64 year
"""
FUNCTIONS: tuple[str, ...] = tuple(_SPARK_FUNCTIONS.split())


class MetadataService:
    """Makes finished operations out of metadata requests."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._answers: dict[type, Callable[[str, Any], Awaitable[Operation]]] = {
            messages.GetCatalogs: self._catalogs,
            messages.GetSchemas: self._schemas,
            messages.GetTables: self._tables,
            messages.GetTableTypes: self._table_types,
            messages.GetColumns: self._columns,
            messages.GetTypeInfo: self._type_info,
            messages.GetFunctions: self._functions,
            messages.GetPrimaryKeys: self._primary_keys,
            messages.GetCrossReference: self._cross_reference,
        }

    def answers(self, request: object) -> bool:
        """True for a request it answers."""
        return type(request) in self._answers

    async def answer(self, user: str, request: object) -> Operation:
        """Return a finished operation that holds the rows."""
        return await self._answers[type(request)](user, request)

    async def _catalogs(self, user: str, request: Any) -> Operation:
        sources = await self._store.live_names(user, "", "")
        rows: Rows = [(name,) for name in sorted([CATALOG, *sources])]
        return _done(OperationType.GET_CATALOGS, metadata.CATALOGS, rows)

    async def _schemas(self, user: str, request: messages.GetSchemas) -> Operation:
        rows: Rows = []
        if _is_lake(request.catalog):
            pattern = _pattern(request.schema)
            names = await self._store.databases(user, pattern, limit=MOST_ROWS)
            if matcher(pattern)(DEFAULT_DATABASE):
                names = sorted({*names, DEFAULT_DATABASE})
            rows = [(name, CATALOG) for name in names]
        elif request.catalog:
            names = await self._store.live_names(user, request.catalog, "")
            matches = matcher(_pattern(request.schema))
            rows = [(name, request.catalog) for name in names if matches(name)]
        return _done(OperationType.GET_SCHEMAS, metadata.SCHEMAS, rows)

    async def _tables(self, user: str, request: messages.GetTables) -> Operation:
        rows: Rows = []
        wanted = {kind.upper() for kind in request.types or ()}
        if _is_lake(request.catalog) and (not wanted or _TABLE in wanted):
            pages = _TablePages(self._store, user, request)
            rows = await pages.next()
            return _done(
                OperationType.GET_TABLES, metadata.TABLES, rows, more=pages.next
            )
        if request.catalog and (not wanted or _TABLE in wanted):
            rows = [
                (*one.on.parts, _TABLE, "", *[None] * 5)
                for one in await self._live_tables(user, request)
            ]
        return _done(OperationType.GET_TABLES, metadata.TABLES, rows)

    async def _table_types(self, user: str, request: Any) -> Operation:
        kinds: Rows = [("TABLE",), ("VIEW",)]
        return _done(OperationType.GET_TABLE_TYPES, metadata.TABLE_TYPES, kinds)

    async def _columns(self, user: str, request: messages.GetColumns) -> Operation:
        rows: Rows = []
        if _is_lake(request.catalog):
            found = await self._store.columns(
                user,
                _pattern(request.schema),
                _pattern(request.table),
                column=_pattern(request.column),
                most=MOST_ROWS,
            )
            rows = await _column_rows(CATALOG, found)
        elif request.catalog:
            tables = await self._live_tables(user, request)
            column = _pattern(request.column)
            found = await self._store.live_columns(
                user, tables, column=column, most=MOST_ROWS
            )
            rows = await _column_rows(tables[0].on.datasource, found) if tables else []
        return _done(OperationType.GET_COLUMNS, metadata.COLUMNS, rows)

    async def _live_tables(
        self, user: str, request: messages.GetTables | messages.GetColumns
    ) -> list[LiveName]:
        patterns = _pattern(request.schema), _pattern(request.table)
        return await self._store.live_tables(
            user, request.catalog or "", patterns, most=MOST_ROWS
        )

    async def _type_info(self, user: str, request: Any) -> Operation:
        rows: Rows = [metadata.type_info_row(kind) for kind in metadata.TYPES]
        return _done(OperationType.GET_TYPE_INFO, metadata.TYPE_INFO, rows)

    async def _functions(self, user: str, request: messages.GetFunctions) -> Operation:
        fits = matcher(_pattern(request.function))
        rows: Rows = [(None, None, n, "", 1, n) for n in FUNCTIONS if fits(n)]
        return _done(OperationType.GET_FUNCTIONS, metadata.FUNCTIONS, rows)

    async def _primary_keys(
        self, user: str, request: messages.GetPrimaryKeys
    ) -> Operation:
        rows: Rows = []
        table = _pattern(request.table)
        if table and _is_lake(request.catalog):
            schema = _pattern(request.schema) or DEFAULT_DATABASE
            found = await self._store.columns_of(user, schema, table)
            keys = sorted((c for c in found if c.key), key=lambda c: c.key)
            rows = [(CATALOG, c.database, c.table, c.name, c.key, None) for c in keys]
        return _done(OperationType.UNKNOWN, metadata.PRIMARY_KEYS, rows)

    async def _cross_reference(self, user: str, request: Any) -> Operation:
        return _done(OperationType.UNKNOWN, metadata.CROSS_REFERENCE, [])


class _TablePages:
    """The answer to GetTables, read as the client fetches: a small page, then large."""

    def __init__(self, store: Store, user: str, request: messages.GetTables) -> None:
        self._store, self._user = store, user
        self._patterns = _pattern(request.schema), _pattern(request.table)
        self._after: tuple[str, str] | None = None
        self._size = FIRST_TABLES
        self._read = 0

    async def next(self) -> Rows:
        """The next rows; none at the end."""
        size = min(self._size, MOST_ROWS - self._read)
        if size <= 0:
            return []
        found = await self._store.tables(
            self._user, *self._patterns, limit=size, after=self._after
        )
        self._read = self._read + len(found) if len(found) == size else MOST_ROWS
        self._size = NEXT_TABLES
        if found:
            self._after = found[-1].database, found[-1].name
        return [
            (CATALOG, t.database, t.name, _TABLE, t.comment, *[None] * 5) for t in found
        ]


def _done(
    kind: OperationType,
    columns: tuple[ColumnDesc, ...],
    rows: Rows,
    *,
    more: Callable[[], Awaitable[Rows]] | None = None,
) -> Operation:
    operation = Operation(kind)
    operation.columns = tuple(EngineColumn(c.name, c.type_id) for c in columns)
    operation.local = LocalRows(tuple(c.type_id for c in columns), [*rows], more)
    operation.finish()
    return operation


def _is_lake(catalog: str | None) -> bool:
    return matcher(_pattern(catalog))(CATALOG) or catalog == "spark_catalog"


def _pattern(text: str | None) -> str | None:
    if text is None:
        return None
    if len(text) > LONGEST_PATTERN:
        raise InvalidRequest(
            f"a search pattern has {len(text)} characters; "
            f"at most {LONGEST_PATTERN} are accepted",
            code="pattern_too_long",
        )
    return text.replace(".*", "%")


async def _column_rows(catalog: str, columns: list[LakeColumn]) -> Rows:
    # up to 200,000 of them: too long for the event loop
    return await asyncio.to_thread(lambda: [_column_row(catalog, c) for c in columns])


def _column_row(catalog: str, column: LakeColumn) -> tuple[Any, ...]:
    # results know one kind of timestamp, and so does what Hive's clients read
    type_name = column.type.replace("timestamp_ntz", "timestamp")
    kind = metadata.sql_type(type_name)
    nullable = _NULLABLE if column.nullable else _NOT_NULL
    return (
        catalog,
        column.database,
        column.table,
        column.name,
        kind.jdbc,
        type_name.upper(),
        kind.precision,
        None,
        kind.scale,
        kind.radix,
        nullable,
        column.comment,
        None,
        None,
        None,
        kind.precision if kind.is_text else None,
        column.position,
        "YES" if column.nullable else "NO",
        None,
        None,
        None,
        None,
        "NO",
    )
