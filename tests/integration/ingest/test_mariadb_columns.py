"""Columns that a table of MariaDB gets, widens or loses while its log is followed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pymysql
import pytest

from catalog.sources.mariadb.older import FACTS, older_of
from catalog.sources.mariadb.types import lake_type
from ingest.contract.following import FollowTable
from ingest.contract.segments import AHEAD
from ingest.contract.table import ColumnSpec
from ingest.driver.apply.log_fold import older_value
from ingest.sources.mariadb.reader import open_source
from tests.integration.ingest.mariadb_following import (
    COLUMNS,
    MariaWorld,
    maria_table,
    maria_world,
)
from tests.mariadb import MariaDbServer

T = "CREATE TABLE t (id int PRIMARY KEY, v text, n int DEFAULT 0)"
N = {**COLUMNS, "n": "int(11) as int"}
FIRST = FollowTable(maria_table(1, columns=N), load="first")


@pytest.fixture
def maria(mariadb_server: MariaDbServer, tmp_path: Path) -> Iterator[MariaWorld]:
    with maria_world(mariadb_server, tmp_path) as world:
        world.run(T)
        yield world


def versions(maria: MariaWorld) -> list[int]:
    return [p.schema_version for s in maria.segments() for p in s.parts_of(1)]


def planned(maria: MariaWorld, older: str | None = None, **columns: str) -> FollowTable:
    """The next version of the plan."""
    table = maria_table(1, columns={**N, **columns}, schema_version=2)
    new = columns.keys() - N.keys()
    wanted = tuple(
        replace(one, older=older) if one.source_name in new else one
        for one in table.columns
    )
    return maria.of(replace(FIRST, table=replace(table, columns=wanted)))


def test_new_columns_come_before_the_plan_has_them(maria: MariaWorld) -> None:
    run = maria.following(FIRST)
    maria.run(
        "INSERT INTO t VALUES (0, 'a', 1)",
        "ALTER TABLE t ADD extra int DEFAULT 5 FIRST",
        "INSERT INTO t (id) VALUES (1)",
    )
    run.until(lambda s: s.tables[0].new_columns == ("extra",), "the column")
    maria.durable(run)
    assert [one.values for one in maria.changes()] == [
        {"id": 0, "v": "a", "n": 1}, {"id": 1, "v": None, "n": 0, "extra": 5},
    ]  # fmt: skip
    run.want(planned(maria, "5", extra="int(11) as int"))
    run.until(lambda s: s.tables[0].new_columns == (), "the plan")
    maria.run("UPDATE t SET extra = 6 WHERE id = 0")
    maria.durable(run)
    assert maria.changes()[-1].values == {"id": 0, "v": "a", "n": 1, "extra": 6}
    assert versions(maria) == [1, AHEAD, 2]
    assert run.problem(1) == ""
    assert maria.reasons() == []


@pytest.mark.long
def test_a_column_that_is_added_in_two_phases_came_once(maria: MariaWorld) -> None:
    """The log has the statement as it begins, and as it is done or given up."""
    run = maria.following(FIRST)
    maria.run(
        "INSERT INTO t VALUES (0, 'a', 1), (1, 'b', 1)",
        "SET SESSION binlog_alter_two_phase = ON",
    )
    with pytest.raises(pymysql.MySQLError, match="Duplicate entry"):
        maria.run("ALTER TABLE t ADD UNIQUE (n), ALGORITHM = COPY")
    maria.run(
        "ALTER TABLE t ADD extra int DEFAULT 5",
        "SET SESSION binlog_alter_two_phase = DEFAULT",
        "INSERT INTO t (id) VALUES (2)",
    )
    run.until(lambda s: s.tables[0].new_columns == ("extra",), "the column")
    run.want(planned(maria, "5", extra="int(11) as int"))
    run.until(lambda s: s.tables[0].new_columns == (), "the plan")
    maria.durable(run)
    assert maria.changes()[-1].values == {"id": 2, "v": None, "n": 0, "extra": 5}
    assert run.problem(1) == ""


@pytest.mark.long
def test_a_reader_that_died_knows_what_older_rows_have(maria: MariaWorld) -> None:
    """A default that was altered since says nothing of them."""
    run = maria.following(FIRST)
    maria.run("ALTER TABLE t ADD extra int DEFAULT 5, ADD other int DEFAULT 5")
    maria.durable(run)
    run.kill()
    maria.run(
        "ALTER TABLE t ALTER extra SET DEFAULT 7", "INSERT INTO t (id) VALUES (1)"
    )
    run = maria.following(FIRST)
    maria.durable(run)
    both = {"extra": "int(11) as int", "other": "int(11) as int"}
    run.want(planned(maria, "5", **both))
    maria.durable(run)
    assert run.problem(1) == ""
    run.want(planned(maria, "7", **both))
    run.until(lambda s: s.tables[0].state == "deferred", "its deferral")
    assert "what extra, other gave to rows" in run.problem(1)


GIVEN = {
    "a": "int NOT NULL",
    "b": "decimal(10,2) DEFAULT 1.5",
    "c": "varchar(20) NOT NULL DEFAULT 'it''s'",
    "d": "datetime(3) DEFAULT '2024-01-01 1:2:3'",
    "e": "timestamp NOT NULL DEFAULT '2024-01-01 00:00:00'",
    "f": "enum('x','y') DEFAULT 'Y'",
    "g": "double DEFAULT '1e3'",
    "h": "text",
    "i": "bigint unsigned DEFAULT 18446744073709551615",
    "j": "char(5) DEFAULT 'ab  '",
    "k": "year DEFAULT 24",
    "l": "varchar(5) DEFAULT 7",
}


def test_what_is_told_of_older_rows_is_what_the_server_gives_them(
    maria: MariaWorld,
) -> None:
    maria.run("INSERT INTO t (id) VALUES (1)")
    maria.run(*(f"ALTER TABLE t ADD {name} {type}" for name, type in GIVEN.items()))
    facts = (
        f"SELECT column_name, column_type, {FACTS} FROM information_schema.columns"
        f" WHERE table_schema = '{maria.dsn}' AND table_name = 't'"
    )
    with open_source(maria.access()) as source:
        rows = {str(row[0]): row for row in source.rows(facts)}
        values = source.one(f"SELECT {', '.join(GIVEN)} FROM {maria.dsn}.t")
    found = older_of(rows.values())
    assert not {*found.untold} & GIVEN.keys()
    for name, value in zip(GIVEN, values, strict=True):
        type = str(rows[name][1])
        older = found.values.get(name)
        column = ColumnSpec(name, name, type, lake_type(type).type, older=older)
        told = older_value(column).as_py()
        told = told.replace(tzinfo=None) if isinstance(told, datetime) else told
        assert told == value, name


@pytest.mark.long
def test_a_default_that_was_altered_before_it_was_read_is_not_taken_for_the_first(
    maria: MariaWorld,
) -> None:
    """As frameworks add a column: rows of before have the default that it came with,
    and nothing of the server tells that behind the second statement."""
    run = maria.following(FIRST)
    maria.run("INSERT INTO t (id) VALUES (1)")
    maria.durable(run)
    run.kill()
    maria.run(
        "ALTER TABLE t ADD m int NOT NULL DEFAULT 5",
        "ALTER TABLE t ALTER COLUMN m DROP DEFAULT",
        "INSERT INTO t (id, m) VALUES (2, 7)",
    )
    with open_source(maria.access()) as source:
        assert source.one(f"SELECT m FROM {maria.dsn}.t WHERE id = 1") == (5,)
    run = maria.following(FIRST)
    maria.durable(run)
    assert (run.problem(1), maria.reasons()) == ("", [])
    assert maria.changes()[-1].values == {"id": 2, "v": None, "n": 0, "m": 7}
    assert run.state.tables[0].older == {"m": "5"}
    run.want(planned(maria, "5", m="int(11) as int"))
    run.until(lambda s: s.tables[0].new_columns == (), "the plan")
    maria.durable(run)
    assert (run.problem(1), maria.reasons()) == ("", [])
    # by a discovery that the second statement came before
    run.want(planned(maria, "0", m="int(11) as int"))
    run.until(lambda s: s.tables[0].state == "deferred", "its deferral")
    assert "what m gave to rows" in run.problem(1)


# As they are added; all are altered before anybody looks.
SAID = (
    "a int DEFAULT 5 NOT NULL", "b decimal(9,3) DEFAULT -1.50", "c bool DEFAULT TRUE",
    "d varchar(9) DEFAULT 'it, s'", 'e char(4) NOT NULL DEFAULT "it\'s"',
    "f longtext NOT NULL DEFAULT 'x y '", "g date DEFAULT '2024-02-03'", "h int",
    "i datetime(3) DEFAULT '2024-02-03 04:05:06.78'", "j varchar(9) DEFAULT '' NOT NULL",
    "k bigint unsigned DEFAULT 18446744073709551615", "l varchar(9)", "m int NOT NULL",
    "n2 double DEFAULT 0.1", "o int NULL DEFAULT NULL",
)  # fmt: skip
# Of these the text does not tell it.
NOT_SAID = (
    "x1 int DEFAULT (1 + 4)", "x2 enum('x','y') DEFAULT 'Y'", "x3 int DEFAULT 1.6",
    "x4 timestamp DEFAULT '2024-02-03 04:05:06'", "x5 varchar(9) DEFAULT 'ä'",
)  # fmt: skip


def test_what_statements_say_of_older_rows_is_what_the_server_gave_them(
    maria: MariaWorld,
) -> None:
    run = maria.following(FIRST)
    maria.run("INSERT INTO t (id) VALUES (1)")
    maria.durable(run)
    run.kill()
    columns = {text.split()[0]: text for text in (*SAID, *NOT_SAID)}
    for text in columns.values():
        maria.run(f"ALTER TABLE t ADD {text}")
    other = {"g": "'1999-01-01'", "i": "'1999-01-01'", "x2": "'x'", "x4": "now()"}
    for name in columns:
        maria.run(f"ALTER TABLE t ALTER {name} SET DEFAULT {other.get(name, '9')}")
    maria.run("INSERT INTO t (id) VALUES (2)")
    facts = (
        "SELECT column_name, column_type FROM information_schema.columns WHERE"
        f" table_schema = '{maria.dsn}' AND table_name = 't'"
    )
    with open_source(maria.access()) as source:
        types = {str(name): str(type) for name, type in source.rows(facts)}
        sent = source.one(f"SELECT {', '.join(columns)} FROM {maria.dsn}.t LIMIT 1")
    run = maria.following(FIRST)
    maria.durable(run)
    assert (run.problem(1), maria.reasons()) == ("", [])
    told = run.state.tables[0].older
    assert columns.keys() - told.keys() == {text.split()[0] for text in NOT_SAID}
    for name, value in zip(columns, sent, strict=True):
        if name in told:
            type = types[name]
            lake = lake_type(type).type
            column = ColumnSpec(name, name, type, lake, older=told[name])
            assert older_value(column).as_py() == value, name


def test_a_wider_type_comes_before_the_plan_has_it(maria: MariaWorld) -> None:
    maria.run("ALTER TABLE t ADD d decimal(5,1)")
    wide = {"n": "bigint(20) as bigint", "d": "decimal(9,1) as decimal(9,1)"}
    first = planned(maria, d="decimal(5,1) as decimal(5,1)")
    run = maria.following(first)
    maria.run(
        "INSERT INTO t VALUES (0, 'a', 1, 1.5)",
        "ALTER TABLE t MODIFY n bigint NOT NULL, CHANGE d d decimal(9,1) AFTER id",
        "INSERT INTO t (id, n, d) VALUES (1, 5000000000, 12345678.5)",
    )
    run.until(lambda s: {*s.tables[0].new_columns} == {"n", "d"}, "the types")
    maria.durable(run)
    run.want(planned(maria, **wide))
    run.until(lambda s: s.tables[0].new_columns == (), "the plan")
    maria.run("INSERT INTO t (id, n) VALUES (2, 7)")
    maria.durable(run)
    found = [(str(one.values["n"]), str(one.values["d"])) for one in maria.changes()]
    assert found == [("1", "1.5"), ("5000000000", "12345678.5"), ("7", "None")]
    assert versions(maria) == [2, AHEAD, 2]
    assert run.problem(1) == ""


# Names of tables, what is done to them, and words of the problem; "" = they have none.
ALTERED = {
    "comment": (["MODIFY n int COMMENT 'x', COMMENT 'x'"], ""),
    "filled": (["MODIFY n int NOT NULL DEFAULT 0"], ""),
    "longer": (["MODIFY v mediumtext"], ""),
    "moved": (["MODIFY id int AFTER n"], ""),
    "keys": (["ADD UNIQUE (n), ADD INDEX (v(9))"], ""),
    "narrower": (["MODIFY n smallint"], "n was int(11) and is smallint(6) now"),
    "unsigned": (["MODIFY n int unsigned"], "n was int(11) and is int(10) unsigned"),
    "made": (["MODIFY n int AS (id + 1) STORED"], "which may have changed values"),
    "words": (["MODIFY v text CHARACTER SET latin1"], "v was text utf8mb4 and is"),
    "dropped": (["DROP n"], ""),
    "anew": (["DROP n, ADD n int"], "by a statement, of which the log has no rows"),
    "again": (["DROP n", "ADD n int"], "altered again before its columns"),
    "renamed": (["RENAME COLUMN n TO m"], "by a statement, of which the log has no"),
    "changed": (["CHANGE n m int"], "by a statement, of which the log has no rows"),
    "rekeyed": (["DROP PRIMARY KEY, ADD PRIMARY KEY (id, n)"], "by a statement"),
    # the look behind both cannot tell what the first one did
    "twice": (["MODIFY n tinyint", "MODIFY n int"], "altered again before its columns"),
    "default": (["ADD m int DEFAULT 1", "ALTER m SET DEFAULT 2"], ""),
    "defaults": (["ALTER n SET DEFAULT 1", "ALTER COLUMN n DROP DEFAULT"], ""),
}


def test_what_may_change_values_defers_that_table_and_no_other(
    maria: MariaWorld,
) -> None:
    """The statements come while nobody reads, so that the looks are behind them all."""
    maria.run(*(T.replace(" t ", f" `{name}` ") for name in (*ALTERED, "lax")))
    tables = {
        name: maria.of(FollowTable(maria_table(n, name, columns=N), load="first"))
        for n, name in enumerate((*ALTERED, "lax"), start=10)
    }
    run = maria.following(FIRST, *tables.values())
    maria.durable(run)
    run.kill()
    for name, (parts, _) in ALTERED.items():
        maria.run(*(f"ALTER TABLE `{name}` {part}" for part in parts))
        maria.run(f"INSERT INTO `{name}` (id, v) VALUES (1, 'a')")
    # NULL became 0
    maria.run("SET sql_mode = ''", "ALTER TABLE lax MODIFY n int NOT NULL")
    maria.run("SET sql_mode = DEFAULT")
    run = maria.following(FIRST, *tables.values())
    maria.durable(run)
    for name, (_, words) in {**ALTERED, "lax": ([], "NOT NULL now")}.items():
        number = tables[name].table.table_id
        problem = run.problem(number)
        assert words in problem, name
        assert bool(words) == bool(problem), (name, problem)
        assert bool(words) == (("deferred", number) in maria.controls()), name
        assert words or maria.changes(number)[0].values["id"] == 1, name


@pytest.mark.long
def test_a_column_that_came_outside_of_the_log_needs_a_load(maria: MariaWorld) -> None:
    run = maria.following(FIRST)
    maria.durable(run)
    maria.run("SET sql_log_bin = 0", "ALTER TABLE t ADD m int DEFAULT 1")
    maria.run("SET sql_log_bin = 1", "INSERT INTO t (id) VALUES (1)")
    run.until(lambda s: s.tables[0].new_columns == ("m",), "the column")
    maria.durable(run)
    run.want(planned(maria, "1", m="int(11) as int"))
    run.until(lambda s: s.tables[0].state == "deferred", "its deferral")
    assert "what m gave to rows" in run.problem(1)


def kept_null() -> FollowTable:
    """The next version of the plan, which reads `n` no more."""
    return FollowTable(maria_table(1, schema_version=2), load="first")


@pytest.mark.long
def test_rows_behind_a_dropped_column_come_and_wait_for_the_plan(
    maria: MariaWorld,
) -> None:
    run = maria.following(FIRST)
    maria.run(
        "INSERT INTO t VALUES (0, 'a', 1), (1, 'b', 2)",
        "ALTER TABLE t DROP COLUMN IF EXISTS n",
        "UPDATE t SET v = 'c' WHERE id = 1",
    )
    run.until(lambda s: s.tables[0].new_columns == ("n",), "that it is told")
    maria.durable(run)
    run.kill()
    maria.run("DELETE FROM t WHERE id = 0")
    run = maria.following(FIRST)
    maria.durable(run)
    assert run.state.tables[0].new_columns == ("n",)
    assert versions(maria) == [1, AHEAD, AHEAD]
    run.want(maria.of(kept_null()))
    run.until(lambda s: s.tables[0].new_columns == (), "the plan")
    maria.run("INSERT INTO t VALUES (2, 'd')")
    maria.durable(run)
    assert versions(maria) == [1, AHEAD, AHEAD, 2]
    assert [(one.op, *one.values.values()) for one in maria.changes()] == [
        ("insert", 0, "a", 1), ("insert", 1, "b", 2), ("update", 1, "c"),
        ("delete", 0, "a"), ("insert", 2, "d"),
    ]  # fmt: skip
    assert (run.problem(1), maria.reasons()) == ("", [])


def test_a_dropped_column_that_comes_again_needs_a_load(maria: MariaWorld) -> None:
    """Rows that do not change have other values in it since."""
    run = maria.following(FIRST)
    maria.run("INSERT INTO t VALUES (0, 'a', 1)", "ALTER TABLE t DROP n")
    run.until(lambda s: s.tables[0].new_columns == ("n",), "that it is told")
    maria.durable(run)
    maria.run("ALTER TABLE t ADD n int DEFAULT 0", "INSERT INTO t VALUES (1, 'a', 1)")
    run.until(lambda s: s.tables[0].state == "deferred", "its deferral")
    assert "what n gave to rows" in run.problem(1)


@pytest.mark.long
def test_one_that_the_plan_has_not_may_come_again(maria: MariaWorld) -> None:
    run = maria.following(FIRST)
    maria.run("ALTER TABLE t DROP n")
    run.until(lambda s: s.tables[0].new_columns == ("n",), "that it is told")
    kept = replace(kept_null().table, left_out=("n",))
    run.want(maria.of(replace(kept_null(), table=kept)))
    run.until(lambda s: s.tables[0].new_columns == (), "the plan")
    maria.run("ALTER TABLE t ADD n int DEFAULT 0", "INSERT INTO t VALUES (1, 'a', 1)")
    maria.durable(run)
    maria.durable(run)
    assert (run.problem(1), maria.reasons()) == ("", [])
    assert maria.changes()[-1].values["id"] == 1
