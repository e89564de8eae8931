"""Reading sources of every kind, each behind the same port.

The way in: `open_source` for facts and clocks, `jdbc_options` for rows,
`cancel_statements` to stop what runs there, `open_log_reader` for the log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import psycopg
import pymysql

from catalog.sources.registry import family_of
from ingest.contract.table import TableSpec
from ingest.sources.mariadb import connection as mariadb_connection
from ingest.sources.mariadb import reader as mariadb
from ingest.sources.mariadb.log import opening as mariadb_log
from ingest.sources.port import LogNames, LogReader, Snapshot, Source, SourceAccess
from ingest.sources.postgresql import connection as postgresql_connection
from ingest.sources.postgresql import reader as postgresql
from ingest.sources.postgresql.log import opening as postgresql_log
from ingest.sources.sharded_log import ShardedLog, Shards

SOURCE_ERRORS = (psycopg.Error, pymysql.MySQLError, OSError)


@dataclass(frozen=True, slots=True)
class _Kind:
    open: Callable[[SourceAccess], AbstractContextManager[Source]]
    cancel: Callable[[SourceAccess], None]
    describe: Callable[[SourceAccess], str]
    idle: Callable[[SourceAccess, Collection[int]], frozenset[int]]
    jdbc: Callable[[SourceAccess, str, Snapshot], dict[str, str]]
    log: Callable[..., AbstractContextManager[LogReader]]
    release: Callable[[SourceAccess, LogNames], None] | None = None


_KINDS: dict[str, _Kind] = {
    "postgresql": _Kind(
        postgresql.open_source,
        postgresql_connection.cancel_statements,
        postgresql_connection.describe_sessions,
        postgresql_connection.idle_sessions,
        postgresql_connection.jdbc_options,
        postgresql_log.open_log_reader,
        postgresql_log.release_log,
    ),
    "mariadb": _Kind(
        mariadb.open_source,
        mariadb_connection.cancel_statements,
        mariadb_connection.describe_sessions,
        mariadb_connection.idle_sessions,
        mariadb_connection.jdbc_options,
        mariadb_log.open_log_reader,
    ),
}


@contextmanager
def open_source(access: SourceAccess) -> Iterator[Source]:
    """A connection with the pinned session settings, closed at the end."""
    with _kind(access).open(access) as source:
        yield source


def cancel_statements(access: SourceAccess) -> None:
    """Cancels what this application runs at the source now. Spark cannot: a task
    that waits for its first row ignores its kill."""
    _kind(access).cancel(access)


def describe_sessions(access: SourceAccess) -> str:
    """What the source does for this application now, in words, by a new connection.
    TimeoutError when it does not answer; SOURCE_ERRORS are answers, too."""
    return _kind(access).describe(access)


def idle_sessions(access: SourceAccess, sessions: Collection[int]) -> frozenset[int]:
    """Those of this application's sessions for which the source has nothing to do, or
    only wait until their rows are fetched. Fails like `describe_sessions`."""
    return _kind(access).idle(access, sessions)


def jdbc_options(access: SourceAccess, sql: str, snapshot: Snapshot) -> dict[str, str]:
    """Spark's options to read the rows of `sql` in `snapshot`."""
    return _kind(access).jdbc(access, sql, snapshot)


@contextmanager
def open_log_reader(
    access: SourceAccess,
    names: LogNames,
    tables: Sequence[TableSpec],
    *,
    after: Callable[[], str | None],
    begin_anew: bool = False,
    wait: Callable[[str], None],
) -> Iterator[LogReader]:
    """The log, with what it needs at the source, for these tables at first.

    after  where the stream ends that goes on; None = a new one begins. Read behind
           what the source was told, which another reader may go on with
    begin_anew  it may begin anew where it cannot go on: `LogReader.anew`
    wait   is called again and again while something at the source is waited for, with
           the reason; what it raises ends the waiting
    """
    shards = Shards()
    with _kind(access).log(
        access,
        names,
        shards.apart(tables),
        after=after,
        begin_anew=begin_anew,
        wait=wait,
    ) as reader:
        yield ShardedLog(reader, shards)


def release_log(access: SourceAccess, names: LogNames) -> None:
    """Give back what following its log has made at the source; nothing happens where
    that is done, or where nothing is made."""
    if release := _kind(access).release:
        release(access, names)


def _kind(access: SourceAccess) -> _Kind:
    return _KINDS[family_of(access.spec.kind)]
