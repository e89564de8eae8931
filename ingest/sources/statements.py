"""What is asked of a table at its source beside its rows: counts, edges, conditions.

SQL text by the dialect of the source, and all of it that several kinds share. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from core.errors import InvalidRequest
from ingest.contract.table import ColumnSpec, TableSpec
from ingest.sources.chunks import KeyPart, after_predicate
from ingest.sources.dialects import Dialect
from ingest.sources.select import relation_of

_CURSOR_TYPES = frozenset({"timestamp", "timestamp_ntz"})


def cursor_column(table: TableSpec) -> ColumnSpec:
    column = next(c for c in table.columns if c.source_name == table.cursor)
    if column.type not in _CURSOR_TYPES:
        raise InvalidRequest(
            "column %(source_name)s (%(source_type)s) cannot be a cursor",
            source_name=column.source_name,
            source_type=column.source_type,
            code="bad_cursor",
            hint="a cursor is a timestamp that every write sets to the current time",
        )
    return column


def has_zone(table: TableSpec) -> bool:
    return cursor_column(table).type == "timestamp"


# ------------------------------------------------------------------ conditions


def range_of(dialect: Dialect, table: TableSpec, low: str, high: str) -> str:
    """Rows with a cursor in (low, high]; low "" = from the beginning."""
    cursor, is_zoned = dialect.name(table.cursor or ""), has_zone(table)
    terms = [f"{cursor} <= {dialect.moment(high, has_zone=is_zoned)}"]
    if low:
        terms.append(f"{cursor} > {dialect.moment(low, has_zone=is_zoned)}")
    return " AND ".join(terms)


def rows_behind(dialect: Dialect, table: TableSpec, position: str) -> str:
    """All rows with a cursor behind the position, those ahead of the source's clock,
    too; "" = all that have one."""
    cursor = dialect.name(table.cursor or "")
    if not position:
        return f"{cursor} IS NOT NULL"
    return f"{cursor} > {dialect.moment(position, has_zone=has_zone(table))}"


def never_read(dialect: Dialect, table: TableSpec, *, position: str) -> str:
    """Rows whose changes no window holds: they have no cursor value, or one below
    every position. position "" = of no load."""
    column = cursor_column(table)
    below = dialect.below_all(column, position=position)
    return f"({dialect.name(column.source_name)} IS NULL OR {below})"


def earlier_values(
    dialect: Dialect, table: TableSpec, columns: Sequence[str], *, low: str
) -> str:
    """Rows at or below the position with a value in one of the columns. Those without
    a cursor value were loaded, and no window ever holds them."""
    cursor = dialect.name(table.cursor or "")
    some = " OR ".join(f"{dialect.name(name)} IS NOT NULL" for name in columns)
    moment = dialect.moment(low, has_zone=has_zone(table))
    return f"({some}) AND ({cursor} <= {moment} OR {cursor} IS NULL)"


def either(condition: str, other: str) -> str:
    """other: "" = none"""
    return f"(({condition}) OR ({other}))" if other else condition


# ------------------------------------------------------------------ statements


def any_row(dialect: Dialect, table: TableSpec, where: str = "TRUE") -> str:
    return f"SELECT 1 FROM {relation_of(dialect, table)} WHERE {where} LIMIT 1"


def unfit_row(
    dialect: Dialect, table: TableSpec, shown: Sequence[str], *, where: str, fits: str
) -> str:
    """`shown` of one of these rows whose value does not fit; where "" = of all."""
    among = f"({where}) AND " if where else ""
    return (
        f"SELECT {', '.join(shown)} FROM {relation_of(dialect, table)}"
        f" WHERE {among}NOT ({fits}) LIMIT 1"
    )


def counted(dialect: Dialect, table: TableSpec, where: str, *, most: int) -> str:
    """How many rows it is true for, up to `most`."""
    return (
        f"SELECT count(*) FROM (SELECT 1 FROM {relation_of(dialect, table)}"
        f" WHERE {where} LIMIT {most}) AS found"
    )


def counted_whole(dialect: Dialect, table: TableSpec) -> str:
    return f"SELECT count(*) FROM {relation_of(dialect, table)}"


def counted_steps(
    dialect: Dialect, table: TableSpec, edges: Sequence[str], *, most: int
) -> str:
    """How many rows have their cursor between the outer edges, up to `most`, then how
    many of those between neighbouring ones."""
    cursor, is_zoned = dialect.name(table.cursor or ""), has_zone(table)
    moments = [dialect.moment(text, has_zone=is_zoned) for text in edges]
    steps = [
        f"count(CASE WHEN at > {low} AND at <= {high} THEN 1 END)"
        for low, high in pairwise(moments)
    ]
    return (
        f"SELECT count(*), {', '.join(steps)} FROM (SELECT {cursor} AS at"
        f" FROM {relation_of(dialect, table)}"
        f" WHERE {cursor} > {moments[0]} AND {cursor} <= {moments[-1]}"
        f" LIMIT {most}) AS recent"
    )


def repeated_keys(dialect: Dialect, table: TableSpec, where: str, *, most: int) -> str:
    """How many keys of these rows other rows have as well, up to `most`."""
    names = [dialect.name(name) for name in table.key]
    key, relation = ", ".join(names), relation_of(dialect, table)
    row = names[0] if len(names) == 1 else f"({key})"
    return (
        f"SELECT count(*) FROM (SELECT {key} FROM {relation} WHERE {row} IN"
        f" (SELECT {key} FROM {relation} WHERE {where})"
        f" GROUP BY {key} HAVING count(*) > 1 LIMIT {most}) AS repeated"
    )


def window_cut(
    dialect: Dialect, table: TableSpec, low: str, high: str, *, rows: int
) -> str:
    """The cursor value of the last of so many rows in (low, high], where there are as
    many. It is a moment."""
    column = cursor_column(table)
    cursor = dialect.name(column.source_name)
    return (
        f"SELECT {cursor} FROM {relation_of(dialect, table)}"
        f" WHERE {range_of(dialect, table, low, high)} AND {dialect.read(column).fits}"
        f" ORDER BY {cursor} LIMIT 1 OFFSET {rows - 1}"
    )


def newest_rows(dialect: Dialect, table: TableSpec, sql: str, *, most: int) -> str:
    """Those of a statement over the table's rows that have the highest cursor."""
    return f"{sql} ORDER BY {dialect.name(table.cursor or '')} DESC LIMIT {most}"


@dataclass(frozen=True, slots=True)
class KeyStatements:
    """Edges of a table's key as text, to be compared by the source alone."""

    dialect: Dialect
    table: TableSpec
    parts: Sequence[KeyPart]

    def highest(self) -> str:
        downwards = ", ".join(f"{name} DESC" for name in self._names)
        return f"{self._select} ORDER BY {downwards} LIMIT 1"

    def lowest(self) -> str:
        """Of a key of one column, itself."""
        return f"SELECT min({self._names[0]}) FROM {self._relation}"

    def beyond(self, low: tuple[str, ...], *, rows: int) -> str:
        """The last of so many behind `low`, where there are as many; () = from the
        beginning."""
        upwards = ", ".join(self._names)
        return (
            f"{self._select} WHERE {after_predicate(self.dialect, self.parts, low)}"
            f" ORDER BY {upwards} LIMIT 1 OFFSET {rows - 1}"
        )

    @property
    def _relation(self) -> str:
        # "r." because a bare name in ORDER BY means the output, which is text
        return f"{relation_of(self.dialect, self.table)} AS r"

    @property
    def _names(self) -> list[str]:
        return [f"r.{self.dialect.name(part.column)}" for part in self.parts]

    @property
    def _select(self) -> str:
        pairs = zip(self._names, self.parts, strict=True)
        columns = (self.dialect.key_text(name, part.type) for name, part in pairs)
        return f"SELECT {', '.join(columns)} FROM {self._relation}"
