"""Whether the log says all that a wanted table needs, and what is new in it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from catalog.sources.mariadb.log import LogServer, unfit
from catalog.sources.mariadb.types import lake_type
from ingest.contract.table import TableSpec

Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table as it is now. types: of its columns, as information_schema has them.
    cascade: a foreign key of its own by which rows of another table change its; "" =
    none."""

    engine: str
    types: Mapping[str, str]
    cascade: str = ""
    is_versioned: bool = False


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
        or _problem_of_columns(table, found.types)
        or _problem_of_types(table, found.types)
    )


def new_columns(table: TableSpec, names: Iterable[str]) -> tuple[str, ...]:
    """That the source has and the plan lacks, in their order there."""
    known = {column.source_name for column in table.columns}
    return tuple(name for name in names if name not in known)


def identifying(table: TableSpec) -> tuple[str, ...]:
    """The columns, by their source names, that say which row of the lake it is."""
    return tuple(dict.fromkeys((*table.key, *table.partition_by)))


def where(table: TableSpec) -> str:
    return f"{table.source_schema}.{table.source_table}"


def _problem_of_key(table: TableSpec) -> str:
    if table.key and not table.row_hash:
        return ""
    return (
        f"{where(table)} has no key, so its log does not say which row was changed or"
        " deleted; choose a key for it, or sync it by a timestamp or by loads"
    )


def _problem_of_columns(table: TableSpec, types: Mapping[str, str]) -> str:
    missing = [c.source_name for c in table.columns if c.source_name not in types]
    if not missing:
        return ""
    return (
        f"{where(table)} has no column {', '.join(missing)} any more; discover the"
        " source again and resync the table"
    )


def _problem_of_types(table: TableSpec, types: Mapping[str, str]) -> str:
    for column in table.columns:
        found = types[column.source_name]
        if column.source_type == found or lake_type(found).type == column.type:
            continue
        return (
            f"{where(table)}: the type of {column.source_name} was"
            f" {column.source_type} and is {found} now, which is not {column.type} in"
            " the lake; discover the source again and resync the table"
        )
    return ""
