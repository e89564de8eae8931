"""What the hostile-source tests ask a source directly, past the proxy, by kind.

Connections of their own: an actor's, an observer's that never waits for a lock, and a
monitor's that tells who waits for whom.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import psycopg
import pymysql

from ingest.changes.positions import to_text
from tests.spark.lake_bench import LakeBench
from tests.spark.mariadb_bench import MariadbBench

Row = tuple[Any, ...]
SOURCE_ERRORS = (psycopg.Error, pymysql.MySQLError)


class Link(Protocol):
    """One connection; statements run one at a time, each committed by itself."""

    number: int

    def run(self, statement: str) -> list[Row]: ...

    def close(self) -> None: ...


class _PostgresLink:
    def __init__(self, dsn: str) -> None:
        self._link = psycopg.connect(dsn, autocommit=True)
        self.number = self._link.info.backend_pid

    def run(self, statement: str) -> list[Row]:
        cursor = self._link.execute(statement)  # type: ignore[call-overload]
        return cursor.fetchall() if cursor.description else []

    def close(self) -> None:
        self._link.close()


class _MariadbLink:
    def __init__(self, bench: MariadbBench) -> None:
        self._lock = threading.Lock()
        self._link = bench.server.connect("shop")
        self.number = self._link.thread_id()

    def run(self, statement: str) -> list[Row]:
        with self._lock, self._link.cursor() as cursor:
            cursor.execute(statement)
            return [tuple(row) for row in cursor.fetchall()]

    def close(self) -> None:
        with suppress(pymysql.MySQLError):
            self._link.close()


@dataclass(frozen=True)
class Side:
    """How one kind of source is asked. Each text is a statement with {…}.

    no_wait   for the observer: it must not queue for a lock
    waits     whether connection {number} waits for a lock
    jobs_wait whether a connection of the product does
    waits_for_us  connections of the product that {number} waits for
    end       ends connection {number}
    """

    kind: str
    no_wait: str
    waits: str
    jobs_wait: str
    waits_for_us: str
    end: str
    text: str
    micros: str
    name: str
    clock: str
    earlier: str

    def connect(self, bench: LakeBench) -> Link:
        if isinstance(bench, MariadbBench):
            return _MariadbLink(bench)
        return _PostgresLink(bench.dsn)

    def now(self, bench: LakeBench) -> str:
        """The source's clock as the text of a position."""
        link = self.connect(bench)
        try:
            micros = int(
                link.run(f"SELECT {self.micros.format(value=self.clock)}")[0][0]
            )
        finally:
            link.close()
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
        return to_text(moment, has_zone=True)

    def shown(self, column: str, lake_type: str) -> str:
        """A column as text that equals the lake's value as text."""
        quoted = self.name.format(column=column)
        if lake_type.startswith("timestamp"):
            return self.text.format(value=self.micros.format(value=quoted))
        return self.text.format(value=quoted)

    def rows(self, link: Link, table: str, columns: Sequence[tuple[str, str]]) -> Any:
        shown = ", ".join(self.shown(*column) for column in columns)
        return link.run(f"SELECT {shown} FROM {table}")


_LOCK_STATES = (
    "(state LIKE 'Waiting for table%' OR state LIKE 'Waiting for backup%'"
    " OR id IN (SELECT trx_mysql_thread_id FROM information_schema.innodb_trx"
    " WHERE trx_state = 'LOCK WAIT'))"
)
SIDES = {
    "postgresql": Side(
        kind="postgresql",
        no_wait="SET lock_timeout = '20ms'",
        waits="SELECT 1 FROM pg_stat_activity WHERE pid = {number}"
        " AND wait_event_type = 'Lock'",
        jobs_wait="SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        " AND application_name LIKE 'sluice:%'",
        waits_for_us="SELECT 1 FROM pg_stat_activity WHERE application_name LIKE"
        " 'sluice:%' AND pid = ANY (pg_blocking_pids({number}))",
        end="SELECT pg_terminate_backend({number})",
        text="({value})::text",
        micros="(extract(epoch FROM {value}) * 1000000)::bigint",
        name='"{column}"',
        clock="clock_timestamp()",
        earlier="now() - interval '20 seconds'",
    ),
    "mariadb": Side(
        kind="mariadb",
        no_wait="SET lock_wait_timeout = 0",
        waits="SELECT 1 FROM information_schema.processlist WHERE id = {number}"
        f" AND {_LOCK_STATES}",
        jobs_wait="SELECT 1 FROM information_schema.processlist"
        f" WHERE info LIKE '%/* sluice:%' AND {_LOCK_STATES}"
        " AND id <> CONNECTION_ID()",
        # the server does not say whom: who has a statement or a transaction of ours
        waits_for_us="SELECT 1 FROM information_schema.processlist"
        " WHERE id = {number} AND state LIKE 'Waiting for table metadata%'"
        " AND EXISTS (SELECT 1 FROM information_schema.processlist o"
        " WHERE o.info LIKE '%/* sluice:%' AND o.id <> CONNECTION_ID())",
        end="KILL CONNECTION {number}",
        text="CAST({value} AS CHAR)",
        micros="TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {value})",
        name="`{column}`",
        clock="UTC_TIMESTAMP(6)",
        earlier="now(6) - interval 20 second",
    ),
}
