"""Whether the log says all that a wanted table needs. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from catalog.sources.mariadb.log import LogServer, unfit
from catalog.sources.mariadb.types import lake_type
from ingest.contract.table import TableSpec
from ingest.sources.ahead import is_as_wide
from ingest.sources.mariadb.log.columns import FoundTable, SourceColumn
from ingest.sources.mariadb.log.statements import Effect, Name


def problem_of(table: TableSpec, found: FoundTable | None, server: LogServer) -> str:
    """Why its changes cannot be followed, and what to do about it; "" = they can."""
    name = where(table)
    if found is None:
        return (
            f"there is no table {name} at the source any more, or its user may not read"
            " it; discover it again, and remove the table or resync it"
        )
    if not found.engine:
        return f"{name} is a view, of which the log has nothing; sync it by loads"
    if reason := unfit(server, table.source_schema, found.engine):
        return f"{name}: {reason}; or sync it by a timestamp or by loads"
    if found.is_versioned:
        return (
            f"{name} keeps former versions of its rows in itself; sync it by a"
            " timestamp or by loads"
        )
    if found.cascade:
        return (
            f"rows of {name} change with those of another table by its foreign key"
            f" {found.cascade}, which the log does not have; sync it by loads, or let"
            " the key have no ON DELETE and ON UPDATE action"
        )
    return (
        _problem_of_key(table)
        or _problem_of_columns(table, found.columns)
        or _problem_of_types(table, found.columns)
    )


def identifying(table: TableSpec) -> tuple[str, ...]:
    """The columns, by their source names, that say which row of the lake it is."""
    return tuple(dict.fromkeys((*table.key, *table.partition_by)))


def where(table: TableSpec) -> str:
    return f"{table.source_schema}.{table.source_table}"


def unread(table: TableSpec, name: Name, text: str, effect: Effect) -> str:
    """Of a statement by which a table has other rows."""
    for former, new in effect.renames:
        if new == name:
            other = ".".join(former)
            return (
                f"{where(table)} was replaced at the source by {other}, which was not"
                f" followed, so what is in it is not known: {text[:200]}; resync the"
                " table, which goes on from the new one"
            )
    verb = "may have been" if effect.may_be_any else "was"
    return (
        f"{where(table)} {verb} changed at the source by a statement, of which the log"
        f" has no rows: {text[:200]}; discover it again, and resync the table"
    )


def unreadable(table: TableSpec, error: Exception) -> str:
    what = f"has no column {error.args[0]}" if isinstance(error, KeyError) else error
    return (
        f"the log of {where(table)} cannot be read: {what}; discover it again, and"
        " resync the table"
    )


def _problem_of_key(table: TableSpec) -> str:
    if table.key and not table.row_hash:
        return ""
    return (
        f"{where(table)} has no key, so its log does not say which row was changed or"
        " deleted; choose a key for it, or sync it by a timestamp or by loads"
    )


def _problem_of_columns(table: TableSpec, there: Mapping[str, SourceColumn]) -> str:
    missing = [c.source_name for c in table.columns if c.source_name not in there]
    if not missing:
        return ""
    return (
        f"{where(table)} has no column {', '.join(missing)} any more; discover the"
        " source again and resync the table"
    )


def _problem_of_types(table: TableSpec, there: Mapping[str, SourceColumn]) -> str:
    for column in table.columns:
        found = there[column.source_name].type
        type = lake_type(found).type
        if column.source_type == found or (type and is_as_wide(column.type, type)):
            continue
        return (
            f"{where(table)}: the type of {column.source_name} was"
            f" {column.source_type} and is {found} now, which is not {column.type} in"
            " the lake; discover the source again and resync the table"
        )
    return ""
