"""Ends readers of MariaDB that stand in the way of somebody who waits for their table.

A SELECT keeps its lock on the table's definition until its last row was taken, and all
that comes behind a waiting ALTER TABLE waits, too. Seeing others needs PROCESS.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time

import pymysql

from catalog.schema.limits import LIMITS
from ingest.sources.mariadb.connection import connect, mark
from ingest.sources.port import SourceAccess

log = logging.getLogger(__name__)

# Which table is waited for is not shown; the statement that waits names it.
_WAITING = """
SELECT id FROM information_schema.processlist
WHERE state LIKE 'Waiting for table metadata lock%%' AND id <> CONNECTION_ID()
  AND info NOT LIKE '%%sluice:%%' AND locate(%s, info) > 0
"""
_OURS = """
SELECT id FROM information_schema.processlist
WHERE info LIKE %s AND id <> CONNECTION_ID()
  AND state NOT LIKE 'Waiting for table metadata lock%%'
"""


class Watch:
    """A connection of its own, which looks every two seconds until it is closed."""

    def __init__(self, access: SourceAccess, table: str) -> None:
        self._table = table
        self._mark = f"%{mark(access.application)}%"
        self._connection, _ = connect(access, read_timeout=LIMITS.unanswered)
        self._ended = threading.Event()
        # who waits → since when
        self._waits: dict[int, float] = {}
        self.gave_way = ""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join(LIMITS.connect)
        with contextlib.suppress(pymysql.MySQLError):
            self._connection.close()

    def _run(self) -> None:
        try:
            while not self._ended.wait(LIMITS.beat):
                self._look()
        except (pymysql.MySQLError, OSError) as error:
            log.info("the watch over waiters ended for %s: %s", self._table, error)

    def _look(self) -> None:
        now = time.monotonic()
        waiting = self._ids(_WAITING, self._table)
        self._waits = {w: self._waits.get(w, now) for w in waiting}
        late = [w for w, at in self._waits.items() if now - at >= LIMITS.give_way]
        if not late:
            return
        self.gave_way = f"pid {late[0]}"
        for reader in self._ids(_OURS, self._mark):
            with (
                contextlib.suppress(pymysql.MySQLError),
                self._connection.cursor() as c,
            ):
                # a reader that waits for its client to take rows hears nothing less
                c.execute(f"KILL CONNECTION {reader}")

    def _ids(self, statement: str, value: str) -> list[int]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement, [value])
            return [int(row[0]) for row in cursor.fetchall()]
