"""Reading sources of every kind, each behind the same port.

The way in: `open_source` for facts and clocks, `open_log_reader` for the log. For rows,
and to stop what runs there, see `ingest.sources.connections`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import psycopg
import pymysql

from catalog.sources.registry import family_of
from ingest.contract.table import TableSpec
from ingest.sources.mariadb import reader as mariadb
from ingest.sources.mariadb.log import opening as mariadb_log
from ingest.sources.port import LogNames, LogReader, Source, SourceAccess
from ingest.sources.postgresql import reader as postgresql
from ingest.sources.postgresql.log import opening as postgresql_log
from ingest.sources.sharded_log import ShardedLog, Shards

SOURCE_ERRORS = (psycopg.Error, pymysql.MySQLError, OSError)

_SOURCES: dict[str, Callable[[SourceAccess], AbstractContextManager[Source]]] = {
    "postgresql": postgresql.open_source,
    "mariadb": mariadb.open_source,
}
_LOGS: dict[str, Callable[..., AbstractContextManager[LogReader]]] = {
    "postgresql": postgresql_log.open_log_reader,
    "mariadb": mariadb_log.open_log_reader,
}
_RELEASES = {"postgresql": postgresql_log.release_log}


@contextmanager
def open_source(access: SourceAccess) -> Iterator[Source]:
    """A connection with the pinned session settings, closed at the end."""
    with _SOURCES[family_of(access.spec.kind)](access) as source:
        yield source


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
    with _LOGS[family_of(access.spec.kind)](
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
    if release := _RELEASES.get(family_of(access.spec.kind)):
        release(access, names)
