"""The control side of a PostgreSQL source: snapshot, clock, facts, cancelling.

Rows travel through Spark's JDBC; this psycopg connection holds the exported
snapshot they share. It must not know the lake.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import quote

import psycopg
from psycopg.rows import tuple_row

from ingest.changes.dialects import dialect_of
from ingest.changes.positions import OpenTransaction, SourceClock
from ingest.changes.select import relation_of
from ingest.contract import TableSpec
from ingest.spark.sources.port import KeyFacts, Row, SourceAccess, pinned_to

_SSL = {"off": "disable", "require": "require", "verify": "verify-full"}
_CONNECT_SECONDS = 10
_TRANSACTION = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
DIALECT = dialect_of("postgresql")

# Text of values must not depend on a role's or database's settings.
SESSION_SETTINGS = {
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "iso_8601",
    "TimeZone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
}


class PostgresSource:
    """See `Source`. One open connection, autocommit, read only."""

    dialect = DIALECT
    right_to_see_others = "pg_read_all_stats"

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self._connection = connection

    @property
    def address(self) -> str:
        """The IP address this connection went to; "" for a unix socket."""
        return self._connection.info.hostaddr

    def rows(self, sql: str, parameters: Sequence[object] | None = None) -> list[Row]:
        # every dynamic part of `sql` went through the dialect
        return self._connection.execute(sql, parameters).fetchall()

    def one(self, sql: str, parameters: Sequence[object] | None = None) -> Row:
        return self.rows(sql, parameters)[0]

    def begin_snapshot(self) -> str:
        """Opens a transaction that stays open and exports its snapshot."""
        self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return str(self.one("SELECT pg_export_snapshot()")[0])

    def columns(self, table: TableSpec) -> dict[str, tuple[str, bool]]:
        """Column → (type text, NOT NULL) as the table is now."""
        found = self.rows(
            "SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull"
            " FROM pg_attribute a WHERE a.attrelid = %s::regclass"
            " AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
            [relation_of(DIALECT, table)],
        )
        return {row[0]: (row[1], row[2]) for row in found}

    def estimated_rows(self, table: TableSpec) -> int:
        """The planner's estimate, partitions included; at least 0."""
        row = self.one(
            "SELECT coalesce(sum(greatest(c.reltuples, 0)), 0)::bigint"
            " FROM pg_class c WHERE c.oid = %s::regclass OR c.oid IN"
            " (SELECT relid FROM pg_partition_tree(%s::regclass) WHERE isleaf)",
            [relation_of(DIALECT, table)] * 2,
        )
        return int(row[0])

    def row_bytes(self, table: TableSpec) -> int:
        """Average width of a row on disk, values stored aside included; 0 when
        nobody analysed the table yet."""
        row = self.one(
            "SELECT coalesce(sum(pg_table_size(c.oid))"
            " / nullif(sum(greatest(c.reltuples, 0)), 0), 0)::bigint"
            " FROM pg_class c WHERE c.oid = %s::regclass OR c.oid IN"
            " (SELECT relid FROM pg_partition_tree(%s::regclass) WHERE isleaf)",
            [relation_of(DIALECT, table)] * 2,
        )
        return int(row[0])

    def pages(self, table: TableSpec) -> int:
        """Heap pages of the table, of its largest partition, or -1 when it has no
        heap (views, foreign tables)."""
        row = self.one(
            "SELECT max(CASE WHEN c.relkind IN ('r', 'm') THEN"
            " pg_relation_size(c.oid) / current_setting('block_size')::bigint END)"
            " FROM pg_class c WHERE c.oid = %s::regclass OR c.oid IN"
            " (SELECT relid FROM pg_partition_tree(%s::regclass) WHERE isleaf)",
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
        return KeyFacts(
            types=tuple(columns[k][0] for k in wanted),
            is_unique=any(
                i[0] and sorted(i[3], key=str) == sorted(wanted)
                for i in indexes
                if None not in i[3]
            ),
            is_walkable=any(
                i[2] == "btree" and i[3][: len(wanted)] == wanted for i in indexes
            ),
            is_not_null=all(columns[k][1] for k in wanted),
        )

    def clock(self) -> SourceClock:
        """Time and open transactions of others, in one statement."""
        sees = bool(
            self.one("SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')")[
                0
            ]
        )
        now, offsets, pids, starts, names, times = self.one(_CLOCK)
        transactions = [
            OpenTransaction(pid, since)
            for pid, since in zip(pids or (), starts or (), strict=True)
        ]
        transactions += [
            OpenTransaction(0, since, is_prepared=True, name=name)
            for name, since in zip(names or (), times or (), strict=True)
        ]
        return SourceClock(
            now, tuple(transactions), sees, (int(offsets[0]), int(offsets[1]))
        )


# Autovacuum and the like never write rows of users. Sluice's own transactions only
# read. The zone is the one sessions get by default, not the one we set.
# Arrays side by side: psycopg reads the fields of anonymous records as text.
_CLOCK = """
SELECT clock_timestamp(),
  (SELECT ARRAY[min(o.seconds), max(o.seconds)]
   FROM pg_settings s, generate_series(-52, 52) weeks,
     LATERAL (SELECT now() + weeks * interval '7 days') t(at),
     LATERAL (SELECT extract(epoch FROM (t.at AT TIME ZONE s.reset_val)
                                      - (t.at AT TIME ZONE 'UTC'))::int) o(seconds)
   WHERE s.name = 'TimeZone'),
  active.pids, active.starts, prepared.names, prepared.times
FROM
  (SELECT array_agg(a.pid) AS pids, array_agg(a.xact_start) AS starts
   FROM pg_stat_activity a
   WHERE a.xact_start IS NOT NULL AND a.pid <> pg_backend_pid()
     AND a.datname = current_database()
     AND coalesce(a.backend_type, '') NOT IN ('autovacuum worker', 'walsender')
     AND NOT (a.application_name LIKE 'sluice:%' AND a.usename = current_user)
  ) AS active,
  (SELECT array_agg(p.gid) AS names, array_agg(p.prepared) AS times
   FROM pg_prepared_xacts p WHERE p.database = current_database()
  ) AS prepared
"""


@contextmanager
def open_source(access: SourceAccess) -> Iterator[PostgresSource]:
    """A connection with the pinned session settings, closed at the end."""
    connection = _connect(access)
    try:
        for setting, value in SESSION_SETTINGS.items():
            statement = f"SET {setting} = {DIALECT.literal(value)}"
            connection.execute(statement)
        # discovery names user types the same way: always with their schema
        connection.execute("SET search_path = ''")
        # our snapshot may have to stay open for hours while chunks are read
        connection.execute("SET idle_in_transaction_session_timeout = 0")
        yield PostgresSource(connection)
    finally:
        connection.close()


def cancel_statements(access: SourceAccess) -> None:
    """Cancels what this application runs at the source now. Spark cannot: a task
    that waits for its first row ignores its kill."""
    with _connect(access, application="sluice:cancel") as connection:
        connection.execute(
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = %s AND pid <> pg_backend_pid()"
            " AND state <> 'idle'",
            [access.application],
        )


def _connect(access: SourceAccess, *, application: str = "") -> psycopg.Connection[Row]:
    many = max(1, len(access.addresses))
    return psycopg.connect(
        # the name is for the certificate, the address is where it goes
        host=",".join([access.spec.host] * many),
        hostaddr=",".join(access.addresses) or None,
        port=access.spec.port,
        dbname=access.spec.database,
        user=access.spec.username,
        password=access.password,
        sslmode=_ssl_mode(access),
        sslrootcert=(access.authorities or "system")
        if access.spec.tls == "verify"
        else None,
        application_name=application or access.application,
        connect_timeout=_CONNECT_SECONDS,
        autocommit=True,
        client_encoding="utf8",
        row_factory=tuple_row,
    )


def jdbc_options(access: SourceAccess, sql: str, snapshot: str) -> dict[str, str]:
    """One partition with the rows of `sql`, as of the exported `snapshot`."""
    source = access.spec
    host = f"[{source.host}]" if ":" in source.host else source.host
    settings = "; ".join(
        f"SET LOCAL {k} = {DIALECT.literal(v)}" for k, v in SESSION_SETTINGS.items()
    )
    import_snapshot = f"SET TRANSACTION SNAPSHOT {DIALECT.literal(snapshot)}"
    return {
        "url": f"jdbc:postgresql://{host}:{source.port}/{quote(source.database, '')}",
        "driver": "org.postgresql.Driver",
        "user": source.username,
        "password": access.password,
        "sslmode": _ssl_mode(access),
        "ApplicationName": access.application,
        "dbtable": f"({sql}) AS source_rows",
        "sessionInitStatement": f"{_TRANSACTION}; {import_snapshot}; {settings}",
        "loginTimeout": "10",
        "tcpKeepAlive": "true",
        **pinned_to(access.addresses, "io.sluice.lake.PinnedSocketFactory"),
        **_trust(access),
    }


def _trust(access: SourceAccess) -> dict[str, str]:
    """Left to itself, the driver trusts a file in somebody's home directory."""
    if access.spec.tls != "verify":
        return {}
    if access.authorities:
        return {"sslrootcert": access.authorities}
    return {"sslfactory": "org.postgresql.ssl.DefaultJavaSSLFactory"}


def _ssl_mode(access: SourceAccess) -> str:
    return _SSL.get(access.spec.tls, "require")
