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
    lacks   keys that no sync brings, of which `warns` tells
    is_long a shorter test shows the same
    """

    kind: str
    name: str
    create: tuple[str, ...]
    changes: tuple[str, ...]
    key: tuple[str, ...] = ("id",)
    ends: str = "succeeded"
    warns: str = ""
    lacks: tuple[str, ...] = ()
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
        is_long=True,
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
    Shape(
        "postgresql",
        "domains",
        (
            "CREATE DOMAIN positive_{t} AS integer CHECK (VALUE > 0)",
            "CREATE DOMAIN narrow_{t} AS positive_{t} CHECK (VALUE < 50)",
            "CREATE TABLE {t} (id positive_{t} PRIMARY KEY, v text, n narrow_{t},"
            " {cursor})",
            "INSERT INTO {t} (id, v, n) VALUES (1, 'one', 10), (2, 'two', NULL)",
        ),
        (
            "UPDATE {t} SET v = 'new', at = now() WHERE id = 1",
            "ALTER DOMAIN positive_{t} ADD CHECK (VALUE < 100)",
        ),
        is_long=True,
    ),
    Shape(
        "postgresql",
        "an enum that grows",
        (
            "CREATE TYPE mood_{t} AS ENUM ('up', 'down')",
            "CREATE TABLE {t} (id mood_{t} PRIMARY KEY, v mood_{t}, {cursor})",
            "INSERT INTO {t} VALUES ('up', 'up'), ('down', 'up')",
        ),
        (
            "ALTER TYPE mood_{t} ADD VALUE 'even' BEFORE 'down'",
            "INSERT INTO {t} VALUES ('even', 'even')",
            "UPDATE {t} SET v = 'even', at = now() WHERE id = 'up'",
        ),
    ),
    Shape(
        "mariadb",
        "an enum that grows",
        (
            "CREATE TABLE {t} (id enum('up', 'down') PRIMARY KEY,"
            " v enum('up', 'down'), {cursor})",
            "INSERT INTO {t} (id, v) VALUES ('up', 'up'), ('down', 'up')",
        ),
        (
            "ALTER TABLE {t} MODIFY v enum('up', 'even', 'down')",
            "UPDATE {t} SET v = 'even', at = now(6) WHERE id = 'up'",
        ),
        # its values are part of the type there
        ends="source_changed",
        is_long=True,
    ),
    Shape(
        "postgresql",
        "another collation",
        (
            "CREATE TABLE {t} (id text PRIMARY KEY, v text, {cursor})",
            "INSERT INTO {t} VALUES ('abc', 'one'), ('b', 'two')",
        ),
        (
            'ALTER TABLE {t} ALTER id TYPE text COLLATE "C"',
            "INSERT INTO {t} VALUES ('ABC', 'three')",
            "UPDATE {t} SET v = 'x', at = now() WHERE id = 'b'",
        ),
        is_long=True,
    ),
    Shape(
        "mariadb",
        "another collation",
        (
            "CREATE TABLE {t} (id varchar(20) PRIMARY KEY, v varchar(20), {cursor})",
            # older than any position, by which a rebuilt table is known again
            "INSERT INTO {t} VALUES ('abc', 'one', now(6) - interval 1 day),"
            " ('b', 'two', now(6) - interval 1 day)",
        ),
        (
            "ALTER TABLE {t} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            "INSERT INTO {t} (id, v) VALUES ('ABC', 'three')",
            "UPDATE {t} SET v = 'x', at = now(6) WHERE id = 'b'",
        ),
        is_long=True,
    ),
    Shape(
        "postgresql",
        "values without a form in the lake",
        (
            "CREATE TABLE {t} (id int PRIMARY KEY, f float8, n numeric(9, 2), d date,"
            " s timestamptz, {cursor})",
            "INSERT INTO {t} (id, f, n, d, s) VALUES (1, 'NaN', 'NaN', 'infinity',"
            " '-infinity'), (2, '-Infinity', 1.25, '2020-01-02', now())",
        ),
        (
            "INSERT INTO {t} (id, f, n, d, s) VALUES (3, 'Infinity', 'NaN',"
            " '-infinity', 'infinity')",
            "UPDATE {t} SET n = 'NaN', f = 0.5, at = now() WHERE id = 2",
        ),
        warns="have no form in the lake",
        is_long=True,
    ),
    Shape(
        "mariadb",
        "values without a form in the lake",
        (
            "CREATE TABLE {t} (id int PRIMARY KEY, f double, d date,"
            " s timestamp(6) NULL, {cursor})",
            "SET SESSION sql_mode = ''",
            "INSERT INTO {t} (id, f, d, s) VALUES (1, 0.5, '0000-00-00', '0000-00-00'),"
            " (2, 1.5, '2020-01-02', now())",
        ),
        (
            "INSERT INTO {t} (id, f, d, s) VALUES (3, 2.5, '2020-00-02', '0000-00-00')",
            "UPDATE {t} SET d = '0000-00-00', at = now(6) WHERE id = 2",
            "SET SESSION sql_mode = DEFAULT",
        ),
        warns="have no form in the lake",
    ),
    Shape(
        "postgresql",
        "cursors ahead of the clock",
        (
            "CREATE TABLE {t} (id int PRIMARY KEY, v text, {cursor})",
            "INSERT INTO {t} VALUES (1, 'one')",
        ),
        (
            "INSERT INTO {t} VALUES (2, 'now', now()), (3, 'later', '2030-01-01'),"
            " (4, 'never', 'infinity')",
        ),
        warns="ahead of the source's clock",
        lacks=("3", "4"),
        is_long=True,
    ),
    Shape(
        "mariadb",
        "cursors ahead of the clock",
        (
            "CREATE TABLE {t} (id int PRIMARY KEY, v varchar(20), {cursor})",
            "INSERT INTO {t} (id, v) VALUES (1, 'one')",
        ),
        (
            "INSERT INTO {t} (id, v) VALUES (2, 'now')",
            "INSERT INTO {t} (id, v, at) VALUES (3, 'later', '2030-01-01')",
        ),
        warns="ahead of the source's clock",
        lacks=("3",),
        is_long=True,
    ),
)
_INHERITANCE = "its tables do not inherit from each other"
# Why there is no such table of that kind of source.
CANNOT = {
    ("mariadb", "children"): _INHERITANCE,
    ("mariadb", "a child repeats a key"): _INHERITANCE,
    ("mariadb", "a numeric key of several scales"): "a DECIMAL has one scale",
    ("mariadb", "unlogged"): "what survives a crash is a matter of the engine",
    ("mariadb", "domains"): "it has no domains",
    ("postgresql", "a key that folds case and blanks"): "its own collations"
    " tell all texts apart; those that do not are named by the plan",
    ("postgresql", "no transactions"): "every table has transactions",
    ("postgresql", "versioned"): "it keeps no former versions",
}
