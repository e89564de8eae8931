"""A seeded writer for tables that are followed by their log: everything that a log can
contain, in transactions that end either way. The source itself says what is right.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pymysql

# table -> its key
KEYS = {"plain": ("id",), "texts": ("code",), "pairs": ("a", "b"), "once": ("id",)}
MOST_KEYS = 400
# rows of a large transaction, whose keys lie beyond all others
LARGE = 100_000
FIRST_LARGE = 10_000
_MOST_ONCE = 300
_MOST_COLUMNS = 9

REFUSED = (psycopg.IntegrityError, pymysql.IntegrityError)
LOST = (
    *(psycopg.OperationalError, psycopg.InterfaceError),
    *(pymysql.OperationalError, pymysql.InterfaceError, pymysql.InternalError),
)

# with values by name, as psycopg and PyMySQL have them; returns how many rows
Run = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one kind of source is written to.

    changes   of each table: insert or replace, update, delete, another key
    large     changes LARGE rows from key FIRST_LARGE on
    aside     what concerns nobody: of each the statements of one transaction
    others    more that may happen, by name
    """

    changes: Mapping[str, tuple[str, str, str, str]]
    large: str
    aside: tuple[tuple[str, ...], ...]
    others: Mapping[str, Callable[[Run, random.Random], None]] = field(
        default_factory=dict
    )


@dataclass(slots=True)
class Once:
    """Rows whose keys are given out once: what is gone stays away, and what was rolled
    back never comes. Over all runs with one source."""

    next: int = 1
    undone: set[int] = field(default_factory=set)


@dataclass
class LogWriter:
    """Writes until it is stopped. A connection that ended is opened again.

    open  a connection, each statement its own transaction
    truncates  how often a table is emptied, beside 80 small transactions
    done  transactions that ended as they should, by what they did
    """

    open: Callable[[], AbstractContextManager[Run]]
    dialect: Dialect
    once: Once
    seed: int
    has_large: bool = False
    truncates: float = 1.0
    done: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    _columns: int = 0
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
                with self.open() as run:
                    while not self._ended.is_set():
                        self._transaction(run, chance)
            except LOST:
                self._ended.wait(0.2)  # the source restarts, or a lock is not given
            except (psycopg.Error, pymysql.Error) as error:
                self.wrong.append(f"{type(error).__name__}: {error}")
                return

    def _transaction(self, run: Run, chance: random.Random) -> None:
        weights = {
            "small": 80,
            "undone": 8,
            "savepoint": 8,
            "once": 12,
            "aside": 3,
            "truncate": self.truncates,
            "column": 0.3,
            "large": 1 if self.has_large else 0,
            **dict.fromkeys(self.dialect.others, 1),
        }
        (what,) = chance.choices(list(weights), list(weights.values()))
        try:
            self._do(what, run, chance)
        except REFUSED:
            run("ROLLBACK")
            return
        self.done[what] = self.done.get(what, 0) + 1
        self._ended.wait(chance.uniform(0, 0.02))

    def _do(self, what: str, run: Run, chance: random.Random) -> None:
        if what == "once":
            self._once(run, chance)
        elif what == "aside":
            for statement in chance.choice(self.dialect.aside):
                run(statement)
        elif what == "column":
            self._add_column(run, chance)
        elif what in self.dialect.others:
            self.dialect.others[what](run, chance)
        else:
            self._several(what, run, chance)

    def _several(self, what: str, run: Run, chance: random.Random) -> None:
        run("BEGIN")
        if what == "large":
            run(self.dialect.large)
            if chance.random() < 0.7:
                run(f"DELETE FROM plain WHERE id >= {FIRST_LARGE} AND mod(id, 3) < 2")
        elif what == "truncate":
            run(f"TRUNCATE TABLE {chance.choice(list(self.dialect.changes))}")
            self._change(run, chance)
        else:
            for _ in range(chance.randint(1, 6)):
                self._change(run, chance)
        if what == "savepoint":
            run("SAVEPOINT here")
            self._change(run, chance)
            run("ROLLBACK TO SAVEPOINT here")
        run("ROLLBACK" if what == "undone" else "COMMIT")

    def _change(self, run: Run, chance: random.Random) -> None:
        statements = chance.choice(list(self.dialect.changes.values()))
        value = chance.choice((None, "", "ü€'\\", "x" * chance.randint(1, 6000)))
        values = {
            "one": chance.randint(1, MOST_KEYS),
            "other": chance.randint(1, MOST_KEYS),
            "value": value,
            "n": chance.randint(0, 9999),
        }
        run(statements[chance.randrange(4)], values)

    def _once(self, run: Run, chance: random.Random) -> None:
        numbers = range(self.once.next, self.once.next + chance.randint(1, 3))
        self.once.next = numbers.stop
        run("BEGIN")
        for number in numbers:
            run("INSERT INTO once (id, v) VALUES (%(n)s, 'a')", {"n": number})
        run("UPDATE once SET v = 'b' WHERE id = %(n)s", {"n": numbers.start - 5})
        oldest = numbers.start - chance.randint(_MOST_ONCE // 2, _MOST_ONCE)
        run("DELETE FROM once WHERE id < %(n)s", {"n": oldest})
        if chance.random() < 0.2:
            run("ROLLBACK")
            self.once.undone.update(numbers)
        else:
            run("COMMIT")

    def _add_column(self, run: Run, chance: random.Random) -> None:
        """Once in a run, and not without end."""
        if self._columns:
            return
        self._columns = 1
        held = run(
            "SELECT max(ordinal_position) FROM information_schema.columns"
            " WHERE table_name = 'plain'"
        )
        number = held[0][0]
        if number < _MOST_COLUMNS:
            default = chance.choice(("", f" DEFAULT {number}"))
            run(f"ALTER TABLE plain ADD COLUMN more{number} int{default}")
            if default and chance.random() < 0.5:
                run(f"ALTER TABLE plain ALTER COLUMN more{number} DROP DEFAULT")
