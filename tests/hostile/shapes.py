"""Tables that are unlike a plain one with a plain key, by kind of source.

Each is loaded, changed and synced; the oracle is that of all hostile sources.
"""

from __future__ import annotations

from dataclasses import dataclass

_CURSOR = {
    "postgresql": "at timestamptz NOT NULL DEFAULT now()",
    "mariadb": "at timestamp(6) NOT NULL DEFAULT now(6)",
}


@dataclass(frozen=True, slots=True)
class Shape:
    """`{t}` is the table, `{cursor}` its cursor `at` with the present as default.

    ends    how the syncs behind the changes end
    warns   words that a warning of theirs has
    is_long a shorter test shows the same
    """

    kind: str
    name: str
    create: tuple[str, ...]
    changes: tuple[str, ...]
    key: tuple[str, ...] = ("id",)
    ends: str = "succeeded"
    warns: str = ""
    is_long: bool = False

    def statements(self, texts: tuple[str, ...], table: str) -> tuple[str, ...]:
        cursor = _CURSOR[self.kind]
        return tuple(text.format(t=table, cursor=cursor) for text in texts)


SHAPES = (
    Shape(
        "postgresql",
        "children",
        (
            "CREATE TABLE {t} (id int PRIMARY KEY, v text, {cursor})",
            "CREATE TABLE {t}_child () INHERITS ({t})",
            "INSERT INTO {t} VALUES (1, 'parent')",
            "INSERT INTO {t}_child VALUES (2, 'child')",
        ),
        (
            "UPDATE {t} SET v = v || '!', at = now()",
            "INSERT INTO {t}_child VALUES (3, 'child')",
        ),
        warns="no unique index",
        is_long=True,
    ),
    Shape(
        "postgresql",
        "a child repeats a key",
        (
            "CREATE TABLE {t} (id int PRIMARY KEY, v text, {cursor})",
            "CREATE TABLE {t}_child () INHERITS ({t})",
            "INSERT INTO {t} VALUES (1, 'parent')",
        ),
        ("INSERT INTO {t}_child VALUES (1, 'twin')",),
        ends="repeated_keys",
        is_long=True,
    ),
    Shape(
        "postgresql",
        "a numeric key of several scales",
        (
            "CREATE TABLE {t} (id numeric PRIMARY KEY, v text, {cursor})",
            "INSERT INTO {t} VALUES (1.0, 'one'), (2.50, 'two')",
        ),
        ("UPDATE {t} SET id = 1.00, v = 'new', at = now() WHERE id = 1",),
    ),
    Shape(
        "postgresql",
        "wide rows among narrow ones",
        (
            "CREATE TABLE {t} (id int PRIMARY KEY, v text, {cursor})",
            "INSERT INTO {t} SELECT g, CASE WHEN g % 100 = 0 THEN repeat('x', 1000000)"
            " ELSE 'n' END FROM generate_series(1, 1000) g",
            "ANALYZE {t}",
        ),
        ("UPDATE {t} SET v = v || 'y', at = now() WHERE id % 50 = 0",),
    ),
    Shape(
        "postgresql",
        "unlogged",
        (
            "CREATE UNLOGGED TABLE {t} (id int PRIMARY KEY, v text, {cursor})",
            "INSERT INTO {t} VALUES (1, 'one')",
        ),
        ("INSERT INTO {t} VALUES (2, 'two')",),
    ),
    Shape(
        "mariadb",
        "a key that folds case and blanks",
        (
            "CREATE TABLE {t} (id varchar(20) PRIMARY KEY, v varchar(20), {cursor})",
            "INSERT INTO {t} (id, v) VALUES ('abc', 'one'), ('b', 'two')",
        ),
        (
            "REPLACE INTO {t} (id, v) VALUES ('ABC', 'three')",
            "UPDATE {t} SET id = 'b ', v = 'four', at = now(6) WHERE id = 'b'",
        ),
    ),
    Shape(
        "mariadb",
        "wide rows among narrow ones",
        (
            "CREATE TABLE {t} (id int PRIMARY KEY, v longtext, {cursor})",
            "INSERT INTO {t} (id, v) SELECT seq, CASE WHEN seq % 100 = 0"
            " THEN repeat('x', 1000000) ELSE 'n' END FROM seq_1_to_1000",
        ),
        ("UPDATE {t} SET v = concat(v, 'y'), at = now(6) WHERE id % 50 = 0",),
        is_long=True,
    ),
    Shape(
        "mariadb",
        "no transactions",
        (
            "CREATE TABLE {t} (id int PRIMARY KEY, v varchar(20), {cursor})"
            " ENGINE = Aria",
            "INSERT INTO {t} (id, v) VALUES (1, 'one')",
        ),
        ("INSERT INTO {t} (id, v) VALUES (2, 'two')",),
    ),
    Shape(
        "mariadb",
        "versioned",
        (
            "CREATE TABLE {t} (id int PRIMARY KEY, v varchar(20), {cursor})"
            " WITH SYSTEM VERSIONING",
            "INSERT INTO {t} (id, v) VALUES (1, 'one')",
        ),
        ("UPDATE {t} SET v = 'two', at = now(6)",),
    ),
)
