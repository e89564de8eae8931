"""An exported snapshot of PostgreSQL, held without any lock on a table.

Commands that rewrite a table (ALTER TYPE, TRUNCATE, VACUUM FULL) are not MVCC-safe: a
snapshot older than their commit sees the new file as empty. So every reader locks the
table first and then compares the file that its snapshot knows with the one of today.
The holder keeps the snapshot alive and ends readers for whose lock others wait.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator

import psycopg

from catalog.schema.limits import LIMITS
from catalog.sources.postgresql.answers import answered_within, hang_up
from core.sentences import Sentence
from ingest.sources.dialects import Dialect
from ingest.sources.port import Row

log = logging.getLogger(__name__)

# Found in the text of the error with which a guard fails; see `sources.failures`.
REWRITTEN = "sluice.rewritten"
IMPORT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
# Limits of a role or a database that would end our sessions. By name, for servers
# before 14 and 17 do not know them.
UNLIMITED = (
    "SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings"
    " WHERE name IN ('idle_session_timeout', 'transaction_timeout')"
)
# Functions and operators are PostgreSQL's own, whatever a role or a database has on its
# path; behind them are those by which extensions order their types (ltree, citext).
OPERATORS = (
    "SET search_path = ''",
    "SELECT set_config('search_path', concat_ws(', ', 'pg_catalog',"
    " string_agg(DISTINCT quote_ident(n.nspname), ', ')), false)"
    " FROM pg_amop a JOIN pg_am m ON m.oid = a.amopmethod AND m.amname = 'btree'"
    " JOIN pg_operator o ON o.oid = a.amopopr"
    " JOIN pg_namespace n ON n.oid = o.oprnamespace AND n.nspname <> 'pg_catalog'",
)
_EXPORT = "SELECT pg_export_snapshot(), txid_current_snapshot()::text"

# A table, what it is made of (partitions, children) and what a view reads.
_REACHED = """
WITH RECURSIVE reached(oid) AS (
  SELECT {relation}::regclass::oid
  UNION
  SELECT next.oid FROM reached r, LATERAL (
    SELECT i.inhrelid AS oid FROM pg_catalog.pg_inherits i WHERE i.inhparent = r.oid
    UNION ALL
    SELECT d.refobjid FROM pg_catalog.pg_rewrite w
    JOIN pg_catalog.pg_depend d ON d.objid = w.oid
      AND d.classid = 'pg_catalog.pg_rewrite'::regclass
      AND d.refclassid = 'pg_catalog.pg_class'::regclass
    WHERE w.ev_class = r.oid
  ) AS next
)"""
# pg_class is the snapshot's; pg_relation_filenode and pg_partition_tree answer for
# today. A cast that fails needs neither plpgsql nor any right.
_UNCHANGED = (
    _REACHED
    + """, altered AS (
  SELECT r.oid FROM reached r LEFT JOIN pg_catalog.pg_class c ON c.oid = r.oid
  WHERE c.oid IS NULL OR (c.relkind IN ('r', 'm') AND c.relfilenode <> 0
    AND c.relfilenode IS DISTINCT FROM pg_catalog.pg_relation_filenode(c.oid))
  UNION ALL
  SELECT t.relid FROM pg_catalog.pg_partition_tree({relation}::regclass) t
  WHERE t.relid NOT IN (SELECT oid FROM reached)
)
SELECT CASE WHEN count(*) = 0 THEN 0
  ELSE ('{marker} ' || min(oid::text))::int END FROM altered"""
)
_HOLDERS = (
    _REACHED
    + """
SELECT l.pid, l.granted, left(coalesce(a.query, ''), 80)
FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'relation' AND l.mode = 'AccessExclusiveLock'
  AND l.relation IN (SELECT oid FROM reached)
  AND l.database = (SELECT oid FROM pg_catalog.pg_database
                    WHERE datname = current_database())
ORDER BY l.granted DESC, l.pid LIMIT 1"""
)
# Our sessions that hold a lock for which another session waits.
_IN_THE_WAY = """
SELECT DISTINCT ours.pid, waits.pid
FROM pg_catalog.pg_stat_activity ours
JOIN pg_catalog.pg_locks held ON held.pid = ours.pid AND held.granted
  AND held.locktype = 'relation' AND held.mode = 'AccessShareLock'
JOIN pg_catalog.pg_locks waits ON NOT waits.granted AND waits.locktype = 'relation'
  AND waits.database = held.database AND waits.relation = held.relation
  AND waits.mode = 'AccessExclusiveLock'
WHERE ours.application_name = %s AND ours.usename = current_user
"""


def guard_of(dialect: Dialect, relation: str) -> tuple[str, ...]:
    """What a reader runs after it imported the snapshot and before it reads."""
    named = dialect.literal(relation)
    return (
        f"SET LOCAL lock_timeout = '{LIMITS.lock}s'",
        f"SET LOCAL statement_timeout = '{LIMITS.statement}s'",
        f"SET LOCAL idle_in_transaction_session_timeout = '{LIMITS.reader_idle}s'",
        # the lock of LOCK TABLE, which needs the right to all columns
        f"SELECT 1 FROM {relation} LIMIT 0",
        _UNCHANGED.format(relation=named, marker=REWRITTEN),
    )


def describe_holder(
    rows: Callable[[str], list[Row]], dialect: Dialect, relation: str
) -> str:
    """Who holds the table's exclusive lock, or waits for it; "" = no session any
    more."""
    statement = _HOLDERS.format(relation=dialect.literal(relation))
    found = rows(statement)
    if not found:
        return ""
    pid, is_granted, query = found[0]
    shown = {"pid": pid, "query": query or "…"}
    if is_granted:
        return Sentence("held by pid %(pid)s (%(query)s)", **shown)
    return Sentence("asked for by pid %(pid)s (%(query)s)", **shown)


class SnapshotHolder:
    """A connection of its own, idle in the transaction that exports the snapshot.

    It touches no table of the source. While readers are at work it shows a sign of
    life every two seconds; without one for a while it ends. Whatever becomes of us,
    the source ends it `LIMITS.abandoned` seconds after the last sign.
    """

    id: str
    # which of them it shows
    transactions: str

    def __init__(
        self, connection: psycopg.Connection[Row], application: str, control: int
    ) -> None:
        """control: the pid of the job's other connection, whose statement is
        cancelled where a reader is ended."""
        self._connection = connection
        self._application = application
        self._control = control
        self._lock = threading.Lock()
        self._unused = LIMITS.unused
        self._readers = 0
        self._idle_since = time.monotonic()
        self._ended = threading.Event()
        # pid of a session that waits for a lock of ours → since when
        self._waits: dict[int, float] = {}
        self.gave_way = ""
        with answered_within(connection, LIMITS.unanswered):
            connection.execute(UNLIMITED)
            connection.execute("SET search_path = ''")
            connection.execute(
                f"SET idle_in_transaction_session_timeout = '{LIMITS.abandoned}s'"
            )
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            found = connection.execute(_EXPORT).fetchone()
        assert found is not None
        self.id, self.transactions = map(str, found)
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return not self._ended.is_set() and not self._connection.closed

    @contextlib.contextmanager
    def reader(self, *, is_last_hope: bool = False) -> Iterator[None]:
        """is_last_hope: reading cannot go on in another snapshot, so it stays longer
        while no reader is at work."""
        with self._lock:
            self._readers += 1
            self._unused = LIMITS.kept if is_last_hope else LIMITS.unused
        try:
            yield
        finally:
            with self._lock:
                self._readers -= 1
                self._idle_since = time.monotonic()

    def close(self) -> None:
        self._ended.set()
        self._thread.join(LIMITS.beat)
        if self._thread.is_alive():
            # the source is silent, and libpq waits for ever
            hang_up(self._connection)
            self._thread.join(LIMITS.beat)
        self._connection.close()

    def _beat(self) -> None:
        try:
            while not self._ended.wait(LIMITS.beat):
                if self._is_unused():
                    break
                self._give_way()
        except psycopg.Error as error:
            if not self._ended.is_set():
                log.info("the snapshot's transaction ended: %s", error)
        finally:
            self._ended.set()
            self._connection.close()

    def _is_unused(self) -> bool:
        with self._lock:
            idle = time.monotonic() - self._idle_since
            return not self._readers and idle > self._unused

    def _give_way(self) -> None:
        """Ends our readers for whose lock a session has waited too long. It is also the
        sign of life."""
        # a transaction sees the same sessions all the time, unless told otherwise
        self._connection.execute("SELECT pg_stat_clear_snapshot()")
        found = self._connection.execute(_IN_THE_WAY, [self._application]).fetchall()
        now = time.monotonic()
        self._waits = {waits: self._waits.get(waits, now) for _, waits in found}
        for ours, waits in found:
            if now - self._waits[waits] < LIMITS.give_way:
                continue
            self.gave_way = f"pid {waits}"
            # a reader between two batches has no statement that could be cancelled
            end = "cancel" if ours == self._control else "terminate"
            self._connection.execute(f"SELECT pg_{end}_backend(%s)", [ours])
