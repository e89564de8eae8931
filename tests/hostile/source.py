"""What the hostile-source tests ask a source directly, past the proxy, by kind.

Connections of their own: an actor's, an observer's that never waits for a lock, and a
monitor's that tells who waits for whom.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pymysql

from ingest.contract.positions import to_text
from tests.spark.lake_bench import LakeBench
from tests.spark.mariadb_bench import MariadbBench

Row = tuple[Any, ...]
SOURCE_ERRORS = (psycopg.Error, pymysql.MySQLError)


class Link(ABC):
    """One connection, made for its first statement, and anew when it broke; statements
    run one at a time, each committed by itself."""

    _roll_back: str

    def __init__(self, first: str = "") -> None:
        """first: a statement that each connection begins with."""
        self._lock = threading.Lock()
        self._first = first
        self._link: Any = None

    @property
    def number(self) -> int:
        """Of the connection at the server; 0 = there is none."""
        is_there = self._link is not None and self._is_open()
        return self._number() if is_there else 0

    def run(self, statement: str) -> list[Row]:
        with self._lock:
            if self._link is None or not self._is_open():
                self._link = self._connect()
                if self._first:
                    self._run(self._first)
            return self._run(statement)

    def close(self) -> None:
        if self._link is not None:
            with suppress(*SOURCE_ERRORS):
                self._link.close()

    def roll_back_prepared(self) -> None:
        """Whoever prepared a transaction and is gone would hold back every sync."""
        for name in self.prepared():
            self.run(self._roll_back.format(name=name))

    @abstractmethod
    def prepared(self) -> list[str]: ...

    @abstractmethod
    def _number(self) -> int: ...

    @abstractmethod
    def _connect(self) -> Any: ...

    @abstractmethod
    def _is_open(self) -> bool: ...

    @abstractmethod
    def _run(self, statement: str) -> list[Row]: ...


class _PostgresLink(Link):
    _roll_back = "ROLLBACK PREPARED '{name}'"

    def __init__(self, bench: LakeBench, first: str) -> None:
        self._bench = bench
        super().__init__(first)

    def prepared(self) -> list[str]:
        return [
            str(row[0])
            for row in self.run(
                "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"
            )
        ]

    def _number(self) -> int:
        return int(self._link.info.backend_pid)

    def _connect(self) -> Any:
        return psycopg.connect(self._bench.dsn, autocommit=True)

    def _is_open(self) -> bool:
        return not self._link.closed

    def _run(self, statement: str) -> list[Row]:
        cursor = self._link.execute(statement)
        return cursor.fetchall() if cursor.description else []


class _MariadbLink(Link):
    _roll_back = "XA ROLLBACK '{name}'"

    def __init__(self, bench: MariadbBench, first: str) -> None:
        self._bench = bench
        super().__init__(first)

    def prepared(self) -> list[str]:
        return [_text(row[3]) for row in self.run("XA RECOVER")]

    def _number(self) -> int:
        return int(self._link.thread_id())

    def _connect(self) -> Any:
        return self._bench.server.connect("shop")

    def _is_open(self) -> bool:
        return bool(self._link.open)

    def _run(self, statement: str) -> list[Row]:
        with self._link.cursor() as cursor:
            cursor.execute(statement)
            return [tuple(row) for row in cursor.fetchall()]


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


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
    date: str
    name: str
    clock: str
    earlier: str

    def connect(self, bench: LakeBench, first: str = "") -> Link:
        if isinstance(bench, MariadbBench):
            return _MariadbLink(bench, first)
        return _PostgresLink(bench, first)

    def asks(self, link: Link, question: str) -> bool:
        """Whether the answer has rows; of a server that is down it has none."""
        try:
            return bool(link.run(question))
        except SOURCE_ERRORS:
            return False

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
        """A column as text that equals the lake's value as text, NULL where the lake
        has no form for it."""
        quoted = self.name.format(column=column)
        if lake_type.startswith("timestamp"):
            return self.text.format(value=self.micros.format(value=quoted))
        shown = self.text.format(value=quoted)
        if lake_type == "date":
            return self.date.format(value=quoted, shown=shown)
        return f"nullif({shown}, 'NaN')" if lake_type.startswith("decimal") else shown

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
        micros="(CASE WHEN isfinite({value})"
        " THEN extract(epoch FROM {value}) * 1000000 END)::bigint",
        date="CASE WHEN isfinite({value}) THEN {shown} END",
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
        date="CASE WHEN MONTH({value}) > 0 AND DAYOFMONTH({value}) > 0"
        " THEN {shown} END",
        name="`{column}`",
        clock="UTC_TIMESTAMP(6)",
        earlier="now(6) - interval 20 second",
    ),
}
