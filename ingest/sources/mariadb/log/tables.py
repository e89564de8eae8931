"""Whether the log says all that a wanted table needs. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from catalog.sources.mariadb.log import LogServer, unfit
from catalog.sources.mariadb.types import lake_type
from core.errors import said_by
from core.sentences import Sentence
from ingest.contract.table import TableSpec
from ingest.sources.ahead import is_as_wide
from ingest.sources.mariadb.log.columns import FoundTable, SourceColumn
from ingest.sources.mariadb.log.statements import Effect, Name

DIED = Sentence(
    "the source's server died, and with innodb_flush_log_at_trx_commit other than 1 its"
    " tables may have lost what its log has"
)
IS_LOCKED = Sentence("it is locked at the source, so what was done to it is not known")


def problem_of(
    table: TableSpec,
    found: FoundTable | None,
    server: LogServer,
    *,
    had: Collection[str] = (),
) -> str:
    """Why its changes cannot be followed, and what to do about it; "" = they can. had:
    columns that it has or had since its cut: how they went, its log says."""
    name = table.at_source
    if found is None:
        return Sentence(
            "there is no table %(table)s at the source any more, or its user may"
            " not read it; discover it again, and remove the table or resync it",
            table=name,
        )
    if not found.engine:
        return Sentence(
            "%(table)s is a view, of which the log has nothing; sync it by loads",
            table=name,
        )
    if reason := unfit(server, table.source_schema, found.engine):
        return Sentence(
            "%(table)s: %(reason)s; or sync it by a timestamp or by loads",
            table=name,
            reason=reason,
        )
    if found.is_versioned:
        return Sentence(
            "%(table)s keeps former versions of its rows in itself; sync it by a"
            " timestamp or by loads",
            table=name,
        )
    if found.cascade:
        return Sentence(
            "rows of %(table)s change with those of another table by its foreign"
            " key %(cascade)s, which the log does not have; sync it by loads, or"
            " let the key have no ON DELETE and ON UPDATE action",
            table=name,
            cascade=found.cascade,
        )
    return (
        _problem_of_key(table)
        or _problem_of_columns(table, found.columns, had)
        or _problem_of_types(table, found.columns)
    )


def rolled_back(table: TableSpec) -> str:
    return Sentence(
        "%(table)s has rows in the log of a transaction that did not happen in the end;"
        " resync the table",
        table=table.at_source,
    )


def unread(table: TableSpec, name: Name, text: str, effect: Effect) -> str:
    """Of a statement by which a table has other rows."""
    for former, new in effect.renames:
        if new == name:
            other = ".".join(former)
            return Sentence(
                "%(table)s was replaced at the source by %(other)s, which was not"
                " followed, so what is in it is not known: %(text)s; resync the"
                " table, which goes on from the new one",
                table=table.at_source,
                other=other,
                text=text[:200],
            )
    if effect.may_be_any:
        return Sentence(
            "%(table)s may have been changed at the source by a statement, of which the"
            " log has no rows: %(text)s; discover it again, and resync the table",
            table=table.at_source,
            text=text[:200],
        )
    return Sentence(
        "%(table)s was changed at the source by a statement, of which the log has no"
        " rows: %(text)s; discover it again, and resync the table",
        table=table.at_source,
        text=text[:200],
    )


def unseen(table: TableSpec) -> str:
    return Sentence(
        "%(table)s is locked at the source, so it cannot be checked; that is tried"
        " again",
        table=table.at_source,
    )


def no_rows(table: TableSpec, reason: str) -> str:
    return Sentence(
        "%(table)s: %(reason)s; resync the table", table=table.at_source, reason=reason
    )


def unreadable(table: TableSpec, error: Exception) -> str:
    """error: KeyError of a column that is not there, or what the log is in words."""
    what = said_by(error)
    if isinstance(error, KeyError):
        what = Sentence("has no column %(column)s", column=error.args[0])
    return Sentence(
        "the log of %(table)s cannot be read: %(what)s; discover it again, and resync"
        " the table",
        table=table.at_source,
        what=what,
    )


def _problem_of_key(table: TableSpec) -> str:
    if table.key and not table.row_hash:
        return ""
    return Sentence(
        "%(table)s has no key, so its log does not say which row was changed or"
        " deleted; choose a key for it, or sync it by a timestamp or by loads",
        table=table.at_source,
    )


def _problem_of_columns(
    table: TableSpec, there: Mapping[str, SourceColumn], had: Collection[str]
) -> str:
    kept = {*there, *had} - ({*table.identifying} - there.keys())
    missing = [c.source_name for c in table.columns if c.source_name not in kept]
    if not missing:
        return ""
    return Sentence(
        "%(table)s has no column %(missing)s any more; discover the source again"
        " and resync the table",
        table=table.at_source,
        missing=", ".join(missing),
    )


def _problem_of_types(table: TableSpec, there: Mapping[str, SourceColumn]) -> str:
    for column in table.columns:
        if column.source_name not in there:
            continue
        found = there[column.source_name].type
        type = lake_type(found).type
        if column.source_type == found or (type and is_as_wide(column.type, type)):
            continue
        return Sentence(
            "%(table)s: the type of %(column)s was %(before)s and is"
            " %(now)s now, which is not %(type)s in the lake; discover the"
            " source again and resync the table",
            table=table.at_source,
            column=column.source_name,
            before=column.source_type,
            now=found,
            type=column.type,
        )
    return ""
