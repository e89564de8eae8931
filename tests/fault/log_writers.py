"""A seeded writer for tables that are followed by their log: everything that a log can
contain, in transactions that end either way. The source itself says what is right.
"""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field
from typing import Any

import psycopg

TABLES = {
    # texts beyond 2 kB lie beside the row: an update of another column leaves them out
    "plain": "(id int PRIMARY KEY, v text, n numeric(12,2), at timestamptz)",
    "texts": "(code text PRIMARY KEY, v text, flag boolean)",
    "pairs": "(a int, b uuid, v text, PRIMARY KEY (a, b))",
}
KEYS = {"plain": ("id",), "texts": ("code",), "pairs": ("a", "b")}
MOST_KEYS = 400
_LARGE = 20_000


def create_tables(link: psycopg.Connection[Any]) -> None:
    for name, columns in TABLES.items():
        link.execute(f"CREATE TABLE {name} {columns}".encode())
        link.execute(f"ALTER TABLE {name} ALTER v SET STORAGE EXTERNAL".encode())
    with link.transaction():
        link.execute(
            "INSERT INTO plain SELECT n, repeat(md5(n::text), 90), n, now()"
            " FROM generate_series(1, 300) n"
        )
        link.execute(
            "INSERT INTO texts SELECT 'k' || n, md5(n::text), n % 2 = 0"
            " FROM generate_series(1, 300) n"
        )


@dataclass
class LogWriter:
    """Writes until it is stopped. A connection that the source ended is opened again.

    done  transactions that were committed, by what they did
    """

    dsn: str
    seed: int
    has_large: bool = False
    done: dict[str, int] = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _write(self) -> None:
        chance = random.Random(self.seed)
        while not self._ended.is_set():
            try:
                with psycopg.connect(self.dsn, autocommit=True) as link:
                    while not self._ended.is_set():
                        self._transaction(link, chance)
            except psycopg.OperationalError:
                self._ended.wait(0.2)  # the source restarts

    def _transaction(
        self, link: psycopg.Connection[Any], chance: random.Random
    ) -> None:
        what = chance.choices(
            ("small", "rolled_back", "savepoint", "truncate", "large"),
            (80, 8, 8, 1, 1 if self.has_large else 0),
        )[0]
        try:
            with link.transaction():
                if what == "large":
                    _large(link, chance)
                elif what == "truncate":
                    link.execute(f"TRUNCATE {chance.choice(list(TABLES))}".encode())
                    _change(link, chance)
                else:
                    for _ in range(chance.randint(1, 6)):
                        _change(link, chance)
                if what == "savepoint":
                    with link.transaction():
                        _change(link, chance)
                        raise psycopg.Rollback
                if what == "rolled_back":
                    raise psycopg.Rollback
        except (psycopg.errors.UniqueViolation, psycopg.errors.DeadlockDetected):
            return
        self.done[what] = self.done.get(what, 0) + 1
        self._ended.wait(chance.uniform(0, 0.02))


def _large(link: psycopg.Connection[Any], chance: random.Random) -> None:
    base = 10_000 + chance.randint(0, 5) * _LARGE
    link.execute(
        "INSERT INTO plain SELECT n, 'large', 0, now() FROM generate_series(%s::int,"
        " %s::int) n ON CONFLICT (id) DO UPDATE SET n = plain.n + 1",
        [base, base + _LARGE - 1],
    )
    if chance.random() < 0.5:
        link.execute("DELETE FROM plain WHERE id >= 10000 AND id % 3 = 0")


def _change(link: psycopg.Connection[Any], chance: random.Random) -> None:
    table = chance.choice(list(TABLES))
    one, other = chance.randint(1, MOST_KEYS), chance.randint(1, MOST_KEYS)
    value = chance.choice((None, "", "ü€'\\", "x" * chance.randint(1, 6000)))
    statement = _STATEMENTS[table][chance.randrange(4)]
    values = {"one": one, "other": other, "value": value, "n": chance.randint(0, 9999)}
    link.execute(statement.encode(), values)


# insert or replace, update that leaves a wide value alone, delete, another key
_STATEMENTS = {
    "plain": (
        "INSERT INTO plain VALUES (%(one)s, %(value)s, %(n)s, now()) ON CONFLICT (id)"
        " DO UPDATE SET v = EXCLUDED.v",
        "UPDATE plain SET n = %(n)s, at = clock_timestamp() WHERE id = %(one)s",
        "DELETE FROM plain WHERE id = %(one)s",
        "UPDATE plain SET id = %(other)s WHERE id = %(one)s",
    ),
    "texts": (
        "INSERT INTO texts VALUES ('k' || %(one)s, %(value)s, true) ON CONFLICT (code)"
        " DO UPDATE SET v = EXCLUDED.v",
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
}
