"""The control side of a PostgreSQL source: snapshot, clock, facts, cancelling.

Rows travel through Spark's JDBC; a second psycopg connection holds the exported
snapshot they share. It must not know the lake.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from catalog.schema.limits import LIMITS
from catalog.sources.postgresql.answers import answered_within, hang_up
from catalog.sources.postgresql.columns import COLUMNS, readable
from core.errors import TransientError
from core.sentences import Sentence
from ingest.contract.positions import OpenTransaction, Replica, SourceClock
from ingest.contract.table import TableSpec
from ingest.sources.dialects import dialect_of
from ingest.sources.fingerprint import ServerFingerprint
from ingest.sources.port import (
    KeyFacts,
    Moment,
    Row,
    Snapshot,
    SourceAccess,
    Waits,
    Widths,
    row_too_wide,
    rows_hidden,
)
from ingest.sources.postgresql.connection import CONTROL_SETTINGS, DIALECT, connect
from ingest.sources.postgresql.fingerprint import read_fingerprint
from ingest.sources.postgresql.log import transactions
from ingest.sources.postgresql.snapshot import (
    IMPORT,
    OPERATORS,
    UNLIMITED,
    SnapshotHolder,
    describe_holder,
    guard_of,
)
from ingest.sources.select import relation_of


class PostgresSource:
    """See `Source`. One open connection for facts, autocommit, read only."""

    dialect = DIALECT
    right_to_see_others = Sentence(
        "pg_read_all_stats, or track_activities of a session,"
    )

    def __init__(
        self, connection: psycopg.Connection[Row], access: SourceAccess
    ) -> None:
        self._connection = connection
        # the snapshot exists on this server only, whatever else the name stands for
        self._access = access.at(self.address)
        self._holder: SnapshotHolder | None = None
        # of a load that shows one moment: no other snapshot comes in its place
        self._moment: Moment | None = None
        self._lock = threading.Lock()
        self._kinds: dict[str, str] = {}
        self._waits = Waits()
        # a connection that is closed meanwhile does not tell it
        self._session = connection.info.backend_pid
        self.gave_way = ""
        # nobody else would end a wait of a connection that is not known yet
        with answered_within(connection, LIMITS.unanswered):
            connection.execute(UNLIMITED)
            for setting, value in CONTROL_SETTINGS.items():
                connection.execute(f"SET {setting} = {DIALECT.literal(value)}")

    @property
    def address(self) -> str:
        """The IP address this connection went to; "" for a unix socket."""
        return self._connection.info.hostaddr

    def rows(self, sql: str, parameters: Sequence[object] | None = None) -> list[Row]:
        # every dynamic part of `sql` went through the dialect
        return self._executed(sql, parameters).fetchall()

    def _executed(self, sql: str, parameters: Any = None) -> psycopg.Cursor[Row]:
        with (
            self._waits.answer(),
            answered_within(self._connection, LIMITS.silent),
        ):
            return self._connection.execute(sql, parameters)

    def one(self, sql: str, parameters: Sequence[object] | None = None) -> Row:
        return self.rows(sql, parameters)[0]

    @contextmanager
    def reading(
        self, table: TableSpec, *, can_renew: bool = True
    ) -> Iterator[Snapshot]:
        with self._sharing(
            table, can_renew=can_renew, is_last_hope=not can_renew
        ) as snapshot:
            yield snapshot

    @contextmanager
    def _sharing(
        self, table: TableSpec, *, can_renew: bool, is_last_hope: bool
    ) -> Iterator[Snapshot]:
        with contextlib.ExitStack() as stack:
            with self._lock:
                holder = self._alive_holder(can_renew=can_renew)
                stack.enter_context(holder.reader(is_last_hope=is_last_hope))
            yield Snapshot(holder.id, self._guard(table))

    @contextmanager
    def within(self, table: TableSpec) -> Iterator[None]:
        """Its locks end with it. What is found inside may hold in this snapshot only,
        and its first reader waits for the gate: until one came it is kept longer."""
        with self._sharing(table, can_renew=True, is_last_hope=True) as snapshot:
            run = self._executed
            run("BEGIN")
            try:
                run(IMPORT)
                run(f"SET TRANSACTION SNAPSHOT {DIALECT.literal(snapshot.id)}")
                for statement in (*OPERATORS, *snapshot.guard):
                    run(statement)
                yield
            finally:
                if not self._connection.closed:
                    run("ROLLBACK")

    def newest_transaction(self) -> int:
        return transactions.newest_transaction(self.one)

    def who_is_open(self, before: int) -> str:
        return transactions.who_is_open(self.one, before)

    def here(self) -> str:
        return transactions.read_place(self.one).encode()

    def moment(self) -> Moment:
        self.give_back()
        with self._lock:
            holder = self._alive_holder(can_renew=True)
            with holder.reader(is_last_hope=True):
                at = transactions.read_place(self.one)
            self._moment = Moment(at.encode(), holder.transactions)
            return self._moment

    def give_back(self) -> None:
        with self._lock:
            holder, self._holder = self._holder, None
            self._moment = None
        if holder is not None:
            self.gave_way = holder.gave_way
            holder.close()

    def hang_up(self) -> None:
        hang_up(self._connection)

    def waiting(self, seconds: float) -> dict[str, int]:
        return dict.fromkeys(self._waits.longer_than(seconds), self._session)

    def _alive_holder(self, *, can_renew: bool) -> SnapshotHolder:
        if self._holder is not None and not self._holder.is_alive:
            if not can_renew or self._moment is not None:
                raise TransientError(
                    "the snapshot in which this table is read was given back while"
                    " no reader was running",
                    code="source_snapshot_lost",
                    hint="it is read again from the beginning",
                )
            self._holder = None
        if self._holder is None:
            self.gave_way = ""
            control = self._connection.info.backend_pid
            self._holder = SnapshotHolder(
                connect(self._access), self._access.application, control
            )
        return self._holder

    def _guard(self, table: TableSpec) -> tuple[str, ...]:
        return guard_of(DIALECT, relation_of(DIALECT, table))

    def _kind_of(self, relation: str) -> str:
        if relation not in self._kinds:
            kind = self.one(
                "SELECT relkind::text FROM pg_class WHERE oid = %s::regclass",
                [relation],
            )
            self._kinds[relation] = str(kind[0])
        return self._kinds[relation]

    def definition(self, table: TableSpec) -> str:
        """Oids, files, columns and indexes of the table and of its parts."""
        row = self.one(_DEFINITION, [relation_of(DIALECT, table)] * 2)
        return hashlib.sha256(str(row[0]).encode()).hexdigest()[:16]

    def lock_holders(self, table: TableSpec) -> str:
        if self.gave_way:
            return Sentence(
                "asked for by %(gave_way)s, for which reading stopped",
                gave_way=self.gave_way,
            )
        return describe_holder(self.rows, DIALECT, relation_of(DIALECT, table))

    def columns(self, table: TableSpec) -> dict[str, tuple[str, bool]]:
        """Column → (type text, NOT NULL) as the table is now, of those that the login
        may SELECT."""
        oid, hides_rows = self.one(
            "SELECT t.oid, row_security_active(t.oid)"
            " FROM (SELECT %s::regclass::oid) AS t(oid)",
            [relation_of(DIALECT, table)],
        )
        if hides_rows:
            raise rows_hidden(table.at_source)
        found = self._executed(COLUMNS, {"oids": [oid]}).fetchall()
        return {
            name: (f"{text}[]" if in_array else text, not_null)
            for _, _, name, text, _, in_array, _, not_null, *_ in readable(found)
        }

    def estimated_rows(self, table: TableSpec) -> int:
        """The planner's estimate, partitions and children included; at least 0."""
        row = self.one(
            f"{_PARTS} SELECT coalesce(sum(greatest(c.reltuples, 0)), 0)::bigint"
            f" {_PARTS_WITH_ROWS}",
            [relation_of(DIALECT, table)],
        )
        return int(row[0])

    def widths(self, table: TableSpec) -> Widths:
        """The average needs statistics, and holds values as they are compressed. The
        widest is that of some pages of the heap: how long a value is stands there,
        wherever it is stored."""
        relation = relation_of(DIALECT, table)
        average, pages, aside = self.one(
            f"{_PARTS} SELECT coalesce(sum(pg_table_size(c.oid))"
            " / nullif(sum(greatest(c.reltuples, 0)), 0), 0)::bigint,"
            " coalesce(sum(pg_relation_size(c.oid)), 0)::bigint"
            " / current_setting('block_size')::bigint,"
            " coalesce(sum(pg_relation_size(c.reltoastrelid)), 0)::bigint"
            f" {_PARTS_WITH_ROWS}",
            [relation],
        )
        if not aside or self._kind_of(relation) not in _SAMPLED:
            return Widths(int(average))
        share = min(100.0, 100.0 * _PAGES_LOOKED_AT / max(int(pages), 1))
        sample = f" TABLESAMPLE SYSTEM ({share:.6f})" if share < 100.0 else ""
        widest = self.one(f"SELECT max({_width(table)}) FROM {relation}{sample}")[0]
        if (widest or 0) > LIMITS.result_bytes:
            name = table.at_source
            raise row_too_wide(name, int(widest))
        return Widths(int(average), int(widest or 0))

    def pages(self, table: TableSpec) -> int:
        """Heap pages of the table, of its largest partition or child, or -1 when it
        has no heap (views, foreign tables) or the login may not SELECT its ctid, for
        which it needs the whole table."""
        row = self.one(
            f"{_PARTS} SELECT max(CASE WHEN c.relkind IN ('r', 'm') THEN"
            " pg_relation_size(c.oid) / current_setting('block_size')::bigint END)"
            f" {_PARTS_WITH_ROWS}"
            " WHERE has_column_privilege(%s::regclass, (-1)::int2, 'SELECT')",
            [relation_of(DIALECT, table)] * 2,
        )
        return -1 if row[0] is None else int(row[0])

    def key_facts(self, table: TableSpec, key: Sequence[str]) -> KeyFacts:
        columns = self.columns(table)
        indexes = self.rows(
            "SELECT i.indisunique AND i.indimmediate, i.indnkeyatts, am.amname,"
            " (SELECT array_agg(a.attname::text ORDER BY k.n)"
            "  FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, n)"
            "  LEFT JOIN pg_attribute a"
            "  ON a.attrelid = i.indrelid AND a.attnum = k.attnum"
            "  WHERE k.n <= i.indnkeyatts)"
            " FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
            " JOIN pg_am am ON am.oid = c.relam"
            " WHERE i.indrelid = %s::regclass AND i.indisvalid AND i.indpred IS NULL",
            [relation_of(DIALECT, table)],
        )
        wanted = list(key)
        has_unique_index = any(
            i[0] and set(i[3]) <= set(wanted) for i in indexes if None not in i[3]
        )
        return KeyFacts(
            types=tuple(columns[k][0] for k in wanted),
            # an index of an inheritance parent does not cover its children's rows
            is_unique=has_unique_index and not self._has_children(table),
            is_walkable=any(
                i[2] == "btree" and i[3][: len(wanted)] == wanted for i in indexes
            ),
            is_not_null=all(columns[k][1] for k in wanted),
        )

    def _has_children(self, table: TableSpec) -> bool:
        found = self.one(
            "SELECT EXISTS (SELECT 1 FROM pg_inherits i"
            " JOIN pg_class c ON c.oid = i.inhparent AND c.relkind <> 'p'"
            " WHERE i.inhparent = %s::regclass)",
            [relation_of(DIALECT, table)],
        )
        return bool(found[0])

    def clock(self) -> SourceClock:
        return read_clock(self.one)

    def bad_text(self, table: TableSpec) -> str:
        return find_bad_text(self.rows, table)

    def source_fingerprint(self, table: TableSpec) -> ServerFingerprint:
        columns = [column.source_name for column in table.read_columns]
        return read_fingerprint(self.one, relation_of(DIALECT, table), columns)


# Kinds of relations that TABLESAMPLE takes.
_SAMPLED = frozenset({"r", "p", "m"})
_PAGES_LOOKED_AT = 250
# Types whose length is known without fetching what is stored aside, and how much of
# it travels for each byte.
_LENGTHS = {"text": 1, "character varying": 1, "character": 1, "bytea": 2}


def _width(table: TableSpec) -> str:
    """SQL of a row's bytes; as they are stored for types that have to be rendered."""
    terms = []
    for column in table.read_columns:
        name = DIALECT.name(column.source_name)
        # of varchar(3)[] as well no length is known: it is an array
        base, _, rest = column.source_type.partition("(")
        times = 0 if rest.endswith("[]") else _LENGTHS.get(base)
        length = (
            f"{times} * octet_length({name})" if times else f"pg_column_size({name})"
        )
        terms.append(f"coalesce({length}, 0)::bigint")
    return " + ".join(terms)


# A table with its partitions, or with the children that inherit from it: a SELECT
# reads them all.
_PARTS = """
WITH RECURSIVE part AS (
  SELECT %s::regclass::oid AS oid
UNION
  SELECT i.inhrelid FROM pg_inherits i JOIN part ON i.inhparent = part.oid
)
"""
# Statistics and what VACUUM does do not count; a rewritten table has a new file.
_DEFINITION = (
    _PARTS
    + """
SELECT jsonb_build_array(
  (SELECT jsonb_agg(jsonb_build_array(c.oid, c.relkind, pg_relation_filenode(c.oid))
     ORDER BY c.oid)
   FROM pg_class c JOIN part ON c.oid = part.oid),
  (SELECT jsonb_agg(jsonb_build_array(a.attnum, a.attname, a.atttypid, a.atttypmod,
     a.attnotnull) ORDER BY a.attnum)
   FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0
     AND NOT a.attisdropped),
  (SELECT jsonb_agg(i.indkey::text ORDER BY i.indkey::text)
   FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid
     AND i.indimmediate AND i.indpred IS NULL),
  CASE WHEN c.relkind IN ('v', 'm') THEN pg_get_viewdef(c.oid) END
)::text FROM pg_class c WHERE c.oid = %s::regclass
"""
)
_PARTS_WITH_ROWS = "FROM pg_class c JOIN part ON c.oid = part.oid AND c.relkind <> 'p'"


@contextmanager
def open_source(access: SourceAccess) -> Iterator[PostgresSource]:
    """A connection with the pinned session settings, closed at the end with all that
    was opened through it."""
    connection = connect(access)
    with contextlib.closing(connection):
        source = PostgresSource(connection, access)
        try:
            yield source
        finally:
            source.give_back()


# --------------------------------------------- the server's clock, open transactions


def read_clock(one: Callable[[str], Row]) -> SourceClock:
    """The time, then the open transactions of others: a transaction that begins
    between the two statements is younger than the time."""
    now, offsets, sees, is_standby, replayed, may_control = one(_CLOCK)
    if is_standby and may_control:
        (checkpoint,) = one(_CHECKPOINT)
        replayed = max(replayed or checkpoint, checkpoint)
    pids, starts, hidden, names, times = one(_TRANSACTIONS)
    replica = Replica(replayed) if is_standby else None
    if is_standby:
        # sessions there only read; those that write are on the primary
        pids = starts = None
    transactions = [
        OpenTransaction(pid, since)
        for pid, since in zip(pids or (), starts or (), strict=True)
    ]
    transactions += [
        OpenTransaction(0, since, is_prepared=True, name=name)
        for name, since in zip(names or (), times or (), strict=True)
    ]
    return SourceClock(
        now,
        tuple(transactions),
        bool(sees) and (is_standby or not hidden),
        (int(offsets[0]), int(offsets[1])),
        replica,
    )


# The zone is the one sessions get by default, not the one we set. A standby has
# replayed up to the last commit; with all of the log that the sender had when it sent
# its last message, up to that message, whose time only pg_read_all_stats may see. But a
# sender that is a standby itself goes on sending messages when it is cut off from the
# primary, and nothing tells one from the other: the sender counts when the connection
# was only made because it is the primary. Before its first message the two times are
# that of the beginning.
_CLOCK = """
SELECT clock_timestamp(),
  (SELECT ARRAY[min(o.seconds), max(o.seconds)]
   FROM pg_settings s, generate_series(-52, 52) weeks,
     LATERAL (SELECT now() + weeks * interval '7 days') t(at),
     LATERAL (SELECT extract(epoch FROM (t.at AT TIME ZONE s.reset_val)
                                      - (t.at AT TIME ZONE 'UTC'))::int) o(seconds)
   WHERE s.name = 'TimeZone'),
  pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'),
  pg_is_in_recovery(),
  CASE WHEN pg_is_in_recovery() THEN greatest(
    pg_last_xact_replay_timestamp(),
    (SELECT max(w.last_msg_send_time) FROM pg_stat_wal_receiver w
     WHERE w.status = 'streaming' AND w.latest_end_lsn <= pg_last_wal_replay_lsn()
       AND w.last_msg_send_time <> w.last_msg_receipt_time
       AND w.conninfo ~ '\\mtarget_session_attrs=(primary|read-write)\\M'))
  END,
  has_function_privilege('pg_control_checkpoint()', 'EXECUTE')
"""
# Of the primary, and replayed: all that a standby knows when it was started and the
# primary has committed nothing since.
_CHECKPOINT = "SELECT checkpoint_time FROM pg_control_checkpoint()"
# Autovacuum and the like never write rows of users. Sluice's own transactions only
# read. Arrays side by side: psycopg reads the fields of anonymous records as text.
# Without track_activities a session does not say when its transaction began. One that
# has written has a number, and did not begin before its session; others may write yet.
_TRANSACTIONS = """
SELECT active.pids, active.starts, active.hidden, prepared.names, prepared.times
FROM
  (SELECT array_agg(a.pid) FILTER (WHERE a.since IS NOT NULL) AS pids,
     array_agg(a.since) FILTER (WHERE a.since IS NOT NULL) AS starts,
     coalesce(bool_or(a.state = 'disabled'), false) AS hidden
   FROM (
     SELECT *, coalesce(xact_start, CASE WHEN state = 'disabled'
       AND backend_xid IS NOT NULL THEN backend_start END) AS since
     FROM pg_stat_activity
   ) AS a
   WHERE a.pid <> pg_backend_pid()
     AND a.datname = current_database()
     AND coalesce(a.backend_type, '') NOT IN ('autovacuum worker', 'walsender')
     AND NOT (a.application_name LIKE 'sluice:%' AND a.usename = current_user)
  ) AS active,
  (SELECT array_agg(p.gid) AS names, array_agg(p.prepared) AS times
   FROM pg_prepared_xacts p WHERE p.database = current_database()
  ) AS prepared
"""


# ---------------------------------------------------------- text in another encoding

# A database in SQL_ASCII takes any bytes, and its server refuses to send those that are
# no UTF-8, without a word about where they are.


_CHECKS_NOTHING = "SQL_ASCII"
_DIALECT = dialect_of("postgresql")
# There a regular expression sees bytes. By Unicode's table of well-formed sequences.
_TAIL = r"[\u0080-\u00bf]"
_UTF8 = "|".join(
    (
        r"[\u0001-\u007f]",
        rf"[\u00c2-\u00df]{_TAIL}",
        rf"\u00e0[\u00a0-\u00bf]{_TAIL}",
        rf"[\u00e1-\u00ec\u00ee\u00ef]{_TAIL}{{2}}",
        rf"\u00ed[\u0080-\u009f]{_TAIL}",
        rf"\u00f0[\u0090-\u00bf]{_TAIL}{{2}}",
        rf"[\u00f1-\u00f3]{_TAIL}{{3}}",
        rf"\u00f4[\u0080-\u008f]{_TAIL}{{2}}",
    )
)
_MOST_SHOWN = 60


def find_bad_text(ask: Callable[[str], list[Row]], table: TableSpec) -> str:
    """Column and key of one row with bytes that are no UTF-8, and the encoding, in
    words; "" = there is none, or the database's encoding is another one. Reads the
    table until it finds one.

    ask  runs a statement at the source
    """
    [(encoding,)] = ask("SHOW server_encoding")
    names = [c.source_name for c in table.read_columns if "string" in c.type]
    if encoding != _CHECKS_NOTHING or not names:
        return ""
    pattern = _DIALECT.literal(f"^({_UTF8})*$")
    bad = [f'{_DIALECT.name(n)}::text COLLATE "C" !~ {pattern}' for n in names]
    key = [_DIALECT.name(name) for name in table.key] or ["ctid"]
    shown = [f"encode(convert_to({k}::text, '{encoding}'), 'escape')" for k in key]
    flags = [f"coalesce({each}, false)" for each in bad]
    found = ask(
        f"SELECT {', '.join([*shown, *flags])} FROM {relation_of(_DIALECT, table)}"
        f" WHERE {' OR '.join(bad)} LIMIT 1"
    )
    if not found:
        return ""
    values, is_bad = found[0][: len(key)], found[0][len(key) :]
    column = names[list(is_bad).index(True)]
    row = ", ".join(
        f"{name} = {str(value)[:_MOST_SHOWN]}"
        for name, value in zip(table.key or ("ctid",), values, strict=True)
    )
    return Sentence(
        "column '%(column)s' of the row with %(row)s has bytes that are no"
        " UTF-8, which the database's encoding %(encoding)s takes unchecked",
        column=column,
        row=row,
        encoding=encoding,
    )
