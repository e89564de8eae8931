"""Sources whose log is followed in fault runs: a server, what is written to it, and what
it has, read by another way than the product reads it.
"""

from __future__ import annotations

import contextlib
import json
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import psycopg

from tests.fault.log_writers import (
    FIRST_LARGE,
    KEYS,
    LARGE,
    Dialect,
    LogWriter,
    Once,
    Run,
)
from tests.hostile.proxy import WireProxy, proxy_of
from tests.mariadb import MariaDbServer

Row = tuple[str | None, ...]


class LoggedSource(Protocol):
    """name: of the datasource, of its database and of the one in the lake. schema: of
    the tables at the source. proxy: the product reaches the source through it."""

    name: str
    once: Once

    @property
    def schema(self) -> str: ...

    @property
    def proxy(self) -> WireProxy: ...

    def begin(self) -> dict[str, Any]:
        """Makes database and empty tables; what the datasource is registered with."""
        ...

    def fill(self) -> None: ...

    def execute(self, statement: str) -> None: ...

    def writer(self, seed: int, *, has_large: bool) -> LogWriter: ...

    def rows(self, table: str) -> tuple[list[str], list[Row]]:
        """Its columns, and all rows as texts."""
        ...

    def end_sessions(self) -> None: ...

    @property
    def crash(self) -> Callable[[], None]:
        """kill -9; it comes back with all that was committed."""
        ...

    def forgotten(self) -> int | None:
        """Up to where it was told to forget its log; None = it is never told."""
        ...

    def close(self) -> None: ...


def durable_end(stream: Path) -> str | None:
    """Where the newest segment ends, by its footer; read without the product's code."""
    for file in sorted(stream.glob("*.seg"), reverse=True)[:1]:
        with contextlib.suppress(FileNotFoundError):  # it was collected meanwhile
            data = file.read_bytes()
            (size,) = struct.unpack(">I", data[-16:-12])
            return str(json.loads(data[-16 - size : -16])["end"])
    return None


def place_of(position: str) -> tuple[int, int]:
    """A position as numbers that rise: of a file and in it."""
    kind, *parts = position.split(":")
    if kind == "binlog":
        return int(parts[2].rpartition(".")[2]), int(parts[4])
    high, low = parts[2].split("/")
    return 0, (int(high, 16) << 32) + int(low, 16)


def comparable(row: Sequence[Any]) -> tuple[Any, ...]:
    """Texts of values: times print their zone and trailing zeros each in its own way."""
    shown = {"t": "true", "f": "false"}
    return tuple(_time(shown.get(v, v)) if isinstance(v, str) else v for v in row)


def _time(text: str) -> str:
    is_time = len(text) >= 19 and text[4:5] == "-" and text[10:11] == " "
    if not is_time:
        return text
    text = text.removesuffix("+00").removesuffix("+00:00")
    return text.rstrip("0").rstrip(".") if "." in text else text


# ------------------------------------------------------------------- PostgreSQL

_POSTGRES_TABLES = {
    # texts beyond 2 kB lie beside the row: an update of another column leaves them out
    "plain": "(id int PRIMARY KEY, v text, n numeric(12,2), at timestamptz)",
    "texts": "(code text PRIMARY KEY, v text, flag boolean)",
    "pairs": "(a int, b uuid, v text, PRIMARY KEY (a, b))",
    "once": "(id bigint PRIMARY KEY, v text)",
}
_POSTGRES = Dialect(
    changes={
        "plain": (
            "INSERT INTO plain (id, v, n, at) VALUES (%(one)s, %(value)s, %(n)s, now())"
            " ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v",
            "UPDATE plain SET n = %(n)s, at = clock_timestamp() WHERE id = %(one)s",
            "DELETE FROM plain WHERE id = %(one)s",
            "UPDATE plain SET id = %(other)s WHERE id = %(one)s",
        ),
        "texts": (
            "INSERT INTO texts VALUES ('k' || %(one)s, %(value)s, true)"
            " ON CONFLICT (code) DO UPDATE SET v = EXCLUDED.v",
            "UPDATE texts SET flag = NOT flag WHERE code = 'k' || %(one)s",
            "DELETE FROM texts WHERE code = 'k' || %(one)s",
            "UPDATE texts SET code = 'k' || %(other)s WHERE code = 'k' || %(one)s",
        ),
        "pairs": (
            "INSERT INTO pairs VALUES (%(one)s, md5(%(other)s::text)::uuid, %(value)s)"
            " ON CONFLICT (a, b) DO UPDATE SET v = EXCLUDED.v",
            "UPDATE pairs SET v = coalesce(v, '') || 'y' WHERE a = %(one)s",
            "DELETE FROM pairs WHERE a = %(one)s",
            "UPDATE pairs SET a = %(other)s WHERE a = %(one)s",
        ),
    },
    large=(
        "INSERT INTO plain (id, v, n, at) SELECT n, 'large', 0, now()"
        f" FROM generate_series({FIRST_LARGE}, {FIRST_LARGE + LARGE - 1}) n"
        " ON CONFLICT (id) DO UPDATE SET n = plain.n + 1"
    ),
    aside=(
        ("CREATE TABLE IF NOT EXISTS aside (id serial, v text)",),
        ("ALTER TABLE IF EXISTS aside ADD COLUMN IF NOT EXISTS w int DEFAULT 3",),
        ("DROP TABLE IF EXISTS aside",),
        (
            "BEGIN",
            "CREATE TABLE IF NOT EXISTS aside (id serial, v text)",
            "INSERT INTO aside (v) SELECT 'x' FROM generate_series(1, 50)",
            "COMMIT",
        ),
    ),
)


@dataclass
class LoggedPostgres:
    """connect: to a database of the server, which answers at that address."""

    connect: Callable[[str], psycopg.Connection[Any]]
    address: tuple[str, int]
    crash: Callable[[], None]
    name: str = "logged"
    schema: str = "public"
    once: Once = field(default_factory=Once)
    _proxy: WireProxy | None = None
    _watch: psycopg.Connection[Any] | None = None

    @property
    def proxy(self) -> WireProxy:
        assert self._proxy is not None
        return self._proxy

    def begin(self) -> dict[str, Any]:
        self._proxy = proxy_of("postgresql", *self.address)
        with self.connect("postgres") as link:
            link.execute(f"CREATE DATABASE {self.name}")
        with self._link() as link:
            for table, columns in _POSTGRES_TABLES.items():
                link.execute(f"CREATE TABLE {table} {columns}".encode())
                alter = f"ALTER TABLE {table} ALTER v SET STORAGE EXTERNAL"
                link.execute(alter.encode())
        return {"port": self.proxy.port}

    def execute(self, statement: str) -> None:
        with self._link() as link:
            link.execute(statement.encode())

    def fill(self) -> None:
        with self._link() as link:
            link.execute(
                "INSERT INTO plain SELECT n, repeat(md5(n::text), 90), n, now()"
                " FROM generate_series(1, 300) n;"
                " INSERT INTO texts SELECT 'k' || n, md5(n::text), n % 2 = 0"
                " FROM generate_series(1, 300) n"
            )

    def writer(self, seed: int, *, has_large: bool) -> LogWriter:
        return LogWriter(self._open, _POSTGRES, self.once, seed, has_large)

    def rows(self, table: str) -> tuple[list[str], list[Row]]:
        with self._link() as link:
            link.execute("SET timezone = 'UTC'")
            columns = [
                name
                for (name,) in link.execute(
                    "SELECT column_name FROM information_schema.columns"
                    " WHERE table_name = %s ORDER BY ordinal_position",
                    [table],
                )
            ]
            listed = ", ".join(f"{c}::text" for c in columns)
            found = link.execute(f"SELECT {listed} FROM {table}".encode()).fetchall()
        return columns, found

    def end_sessions(self) -> None:
        with self.connect("postgres") as link:
            link.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = %s AND pid <> pg_backend_pid()",
                [self.name],
            )

    def forgotten(self) -> int | None:
        if self._watch is None or self._watch.closed:
            self._watch = self._link()
        found = self._watch.execute(
            "SELECT confirmed_flush_lsn - '0/0'::pg_lsn FROM pg_replication_slots"
            " WHERE database = %s AND slot_name LIKE 'sluice%%'",
            [self.name],
        ).fetchone()
        return int(found[0]) if found and found[0] is not None else None

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
        if self._proxy is not None:
            self._proxy.close()

    def _link(self) -> psycopg.Connection[Any]:
        return self.connect(self.name)

    @contextlib.contextmanager
    def _open(self) -> Iterator[Run]:
        with self._link() as link:

            def run(statement: str, values: Any = None) -> Any:
                done = link.execute(statement.encode(), values)
                return done.fetchall() if done.description else None

            run("SET lock_timeout = '3s'")
            yield run


# ---------------------------------------------------------------------- MariaDB

_MARIADB_TABLES = {
    "plain": "(id int PRIMARY KEY, v text, n decimal(12,2), at datetime(6))",
    "texts": "(code varchar(40) COLLATE utf8mb4_bin PRIMARY KEY, v text, flag int)",
    "pairs": "(a int, b varchar(40) COLLATE utf8mb4_bin, v text, PRIMARY KEY (a, b))",
    "once": "(id bigint PRIMARY KEY, v text)",
}
# of an engine without transactions: what is rolled back stays, and is in the log
_UNSAFE = "CREATE TABLE isam (id int AUTO_INCREMENT PRIMARY KEY, v text) ENGINE=MyISAM"
_MARIADB_CHANGES = {
    "plain": (
        "INSERT INTO plain (id, v, n, at) VALUES (%(one)s, %(value)s, %(n)s, now(6))"
        " ON DUPLICATE KEY UPDATE v = VALUES(v)",
        "UPDATE plain SET n = %(n)s, at = sysdate(6) WHERE id = %(one)s",
        "DELETE FROM plain WHERE id = %(one)s",
        "UPDATE plain SET id = %(other)s WHERE id = %(one)s",
    ),
    "texts": (
        "REPLACE INTO texts VALUES (concat('k', %(one)s), %(value)s, 1)",
        "UPDATE texts SET flag = 1 - flag WHERE code = concat('k', %(one)s)",
        "DELETE FROM texts WHERE code = concat('k', %(one)s)",
        "UPDATE texts SET code = concat('k', %(other)s)"
        " WHERE code = concat('k', %(one)s)",
    ),
    "pairs": (
        "INSERT INTO pairs VALUES (%(one)s, md5(%(other)s), %(value)s)"
        " ON DUPLICATE KEY UPDATE v = VALUES(v)",
        "UPDATE pairs SET v = concat(coalesce(v, ''), 'y') WHERE a = %(one)s",
        "DELETE FROM pairs WHERE a = %(one)s",
        "UPDATE pairs SET a = %(other)s WHERE a = %(one)s",
    ),
}
_MARIADB_LARGE = (
    f"INSERT INTO plain (id, v, n, at) SELECT {FIRST_LARGE} + seq, 'large', 0, now(6)"
    f" FROM seq_0_to_{LARGE - 1} ON DUPLICATE KEY UPDATE n = plain.n + 1"
)
_MARIADB_ASIDE = (
    ("CREATE TABLE IF NOT EXISTS aside (id int AUTO_INCREMENT PRIMARY KEY, v text)",),
    ("ALTER TABLE IF EXISTS aside ADD COLUMN IF NOT EXISTS w int DEFAULT 3",),
    ("DROP TABLE IF EXISTS aside",),
    ("CREATE OR REPLACE TABLE aside AS SELECT seq AS id, 'x' AS v FROM seq_1_to_50",),
    ("INSERT INTO isam (v) VALUES ('alone')",),
    (
        "BEGIN",
        "UPDATE plain SET n = 1 WHERE id = 1",
        "INSERT INTO isam (v) VALUES ('in a transaction')",
        "UPDATE plain SET n = 2 WHERE id = 2",
        "ROLLBACK",
    ),
)


@dataclass
class LoggedMariaDb:
    """A server of its own, whose log is cut into small files. stream: the chain that it
    is read into."""

    stream: Callable[[], Path]
    name: str = "logged_maria"
    once: Once = field(default_factory=Once)
    server: MariaDbServer = field(
        default_factory=lambda: MariaDbServer(
            ["--innodb-flush-log-at-trx-commit=1", "--max-binlog-size=2M"]
        )
    )
    _proxy: WireProxy | None = None

    @property
    def schema(self) -> str:
        return self.name

    @property
    def proxy(self) -> WireProxy:
        assert self._proxy is not None
        return self._proxy

    def begin(self) -> dict[str, Any]:
        if not self.server.port:
            self.server.start()
        self._proxy = proxy_of("mariadb", self.server.host, self.server.port)
        self.server.create_database(self.name)
        with self._open() as run:
            for table, columns in _MARIADB_TABLES.items():
                run(f"CREATE TABLE {table} {columns}")
            run(_UNSAFE)
        rights = ["SELECT ON *.*", "REPLICATION SLAVE, BINLOG MONITOR ON *.*"]
        self.server.create_user("reader", "reader", rights)
        login = {"username": "reader", "password": "reader"}
        return {"kind": "mariadb", "port": self.proxy.port, **login}

    def execute(self, statement: str) -> None:
        with self._open() as run:
            run(statement)

    def fill(self) -> None:
        with self._open() as run:
            run(
                "INSERT INTO plain SELECT seq, repeat(md5(seq), 90), seq, now(6)"
                " FROM seq_1_to_300"
            )
            run(
                "INSERT INTO texts SELECT concat('k', seq), md5(seq), mod(seq, 2)"
                " FROM seq_1_to_300"
            )

    def writer(self, seed: int, *, has_large: bool) -> LogWriter:
        dialect = Dialect(
            changes=_MARIADB_CHANGES,
            large=_MARIADB_LARGE,
            aside=_MARIADB_ASIDE,
            others={"flush": _flush, "purge": self._purge},
        )
        return LogWriter(self._open, dialect, self.once, seed, has_large)

    def rows(self, table: str) -> tuple[list[str], list[Row]]:
        with self._open() as run:
            columns = [
                name
                for (name,) in run(
                    "SELECT column_name FROM information_schema.columns WHERE"
                    " table_schema = %(db)s AND table_name = %(table)s"
                    " ORDER BY ordinal_position",
                    {"db": self.name, "table": table},
                )
            ]
            listed = ", ".join(f"CAST({c} AS char)" for c in columns)
            return columns, list(run(f"SELECT {listed} FROM {table}"))

    def end_sessions(self) -> None:
        self.server.end_sessions()

    @property
    def crash(self) -> Callable[[], None]:
        return self.server.crash

    def forgotten(self) -> int | None:
        return None

    def close(self) -> None:
        if self._proxy is not None:
            self._proxy.close()
        self.server.destroy()

    def _purge(self, run: Run, _: random.Random) -> None:
        """Files that were read to their end; nobody tells the server which they are."""
        if end := durable_end(self.stream()):
            run(f"PURGE BINARY LOGS TO '{end.split(':')[3]}'")

    @contextlib.contextmanager
    def _open(self) -> Iterator[Run]:
        with contextlib.closing(self.server.connect(self.name)) as link:
            cursor = link.cursor()

            def run(statement: str, values: Any = None) -> Any:
                cursor.execute(statement, values)
                return cursor.fetchall()

            run("SET lock_wait_timeout = 3, innodb_lock_wait_timeout = 3")
            yield run


def _flush(run: Run, _: random.Random) -> None:
    run("FLUSH BINARY LOGS")


__all__ = ["KEYS", "LoggedMariaDb", "LoggedPostgres", "LoggedSource"]
