"""A follower of MariaDB's log: the real process, a real server, and a lake."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingest.contract.following import FollowTable
from ingest.contract.source_positions import MariaDbLog
from ingest.contract.table import SHARD, ColumnSpec, ShardSpec
from tests.integration.ingest.following import Change, World
from tests.integration.ingest.mariadb_following import (
    MariaWorld,
    maria_table,
    maria_world,
)
from tests.long_tests import first_then_long
from tests.mariadb import MariaDbServer
from tests.waiting import wait_for

T = "CREATE TABLE t (id int PRIMARY KEY, v text)"
FIRST = FollowTable(maria_table(1), load="first")


@pytest.fixture
def maria(mariadb_server: MariaDbServer, tmp_path: Path) -> Iterator[MariaWorld]:
    with maria_world(mariadb_server, tmp_path) as world:
        world.run(T)
        yield world


def seen(changes: list[Change]) -> list[tuple[str, Any, Any]]:
    return [(one.op, one.values["id"], one.values["v"]) for one in changes]


def test_all_kinds_of_changes_come_in_their_order(maria: MariaWorld) -> None:
    run = maria.following(FIRST)
    maria.run(
        "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
        "UPDATE t SET v = 'c' WHERE id = 1",
        "UPDATE t SET id = 3 WHERE id = 2",
        "DELETE FROM t WHERE id = 1",
        "TRUNCATE t",
        "INSERT INTO t VALUES (4, NULL)",
    )
    maria.durable(run)
    assert seen(maria.changes()) == [
        ("insert", 1, "a"),
        ("insert", 2, "b"),
        ("update", 1, "c"),
        ("delete", 2, "b"),
        ("moved", 3, "b"),
        ("delete", 1, "c"),
        ("truncate", None, None),
        ("insert", 4, None),
    ]
    assert maria.controls() == [("added", 1), ("cut", 1)]
    newest = maria.newest()
    assert newest is not None
    place = MariaDbLog.decode(newest.end)
    assert place.made
    assert place.gtids


def test_a_statement_is_read_as_its_session_wrote_it(maria: MariaWorld) -> None:
    """The log has it with its comments, and with the quotes that its session uses."""
    run = maria.following(FIRST)
    maria.run(
        "INSERT INTO t VALUES (1, 'a')",
        "--\n-- from a file\n--\nTRUNCATE TABLE t",
        "INSERT INTO t VALUES (2, 'b')",
        "SET sql_mode = 'ANSI_QUOTES'",
        'TRUNCATE TABLE "t"',
        "SET sql_mode = DEFAULT",
    )
    maria.durable(run)
    assert [one.op for one in maria.changes()] == ["insert", "truncate"] * 2


def test_a_server_that_gets_another_number_is_read_on(maria: MariaWorld) -> None:
    server = maria.server
    run = maria.following(FIRST)
    maria.run("INSERT INTO t VALUES (1, 'a')")
    maria.durable(run)
    at = maria.here()
    done = maria.of(replace(FIRST, finished_at=at))
    run.want(done)
    run.until(lambda s: s.tables[0].state == "finished", "the end of its load")
    maria.durable(run)
    run.kill()
    try:
        server.run("SET GLOBAL server_id = 4242", "SET SESSION server_id = 4242")
        maria.run("INSERT INTO t VALUES (2, 'b')")
        run = maria.following(done)
        maria.run("INSERT INTO t VALUES (3, 'c')")
        maria.durable(run)
    finally:
        server.run("SET GLOBAL server_id = 1", "SET SESSION server_id = 1")
    assert seen(maria.changes()) == [("insert", n, v) for n, v in enumerate("abc", 1)]
    assert maria.reasons() == []


def test_a_killed_reader_goes_on_and_a_rotated_log_too(maria: MariaWorld) -> None:
    run = maria.following(FIRST)
    maria.run("INSERT INTO t VALUES (1, 'a')")
    maria.durable(run)
    run.kill()
    maria.run("INSERT INTO t VALUES (2, 'b')", "FLUSH BINARY LOGS")
    maria.run("INSERT INTO t VALUES (3, 'c')")
    run = maria.following(FIRST)
    maria.run("FLUSH BINARY LOGS", "INSERT INTO t VALUES (4, 'd')")
    maria.durable(run)
    assert [one.values["id"] for one in maria.changes()] == [1, 2, 3, 4]


def test_a_transaction_that_did_not_happen_leaves_nothing(maria: MariaWorld) -> None:
    run = maria.following(FIRST)
    opened = maria.server.connect(maria.dsn, autocommit=False)
    with closing(opened) as link, link.cursor() as cursor:
        cursor.execute("INSERT INTO t VALUES (1, 'a')")
        cursor.execute("SAVEPOINT s")
        cursor.execute("INSERT INTO t VALUES (2, 'b')")
        cursor.execute("ROLLBACK TO s")
        link.commit()
        cursor.execute("INSERT INTO t VALUES (3, 'c')")
        link.rollback()
    maria.durable(run)
    assert [one.values["id"] for one in maria.changes()] == [1]


def test_a_server_that_starts_anew_is_read_on(maria: MariaWorld) -> None:
    run = maria.following(FIRST)
    maria.run("INSERT INTO t VALUES (1, 'a')")
    maria.durable(run)
    maria.server.restart()
    assert run.until_failed()[1].code in {"log_ended", "source_unreachable"}
    maria.run("INSERT INTO t VALUES (2, 'b')")
    run = maria.following(FIRST)
    maria.durable(run)
    assert [one.values["id"] for one in maria.changes()] == [1, 2]


def test_of_two_readers_the_older_one_ends(maria: MariaWorld) -> None:
    old = maria.following(FIRST)
    old.signal(signal.SIGSTOP)
    maria.run("INSERT INTO t VALUES (1, 'a')")
    new = maria.following(FIRST)
    maria.durable(new)
    old.signal(signal.SIGCONT)
    old.until_failed()
    maria.run("INSERT INTO t VALUES (2, 'b')")
    maria.durable(new)
    assert [one.values["id"] for one in maria.changes()] == [1, 2]


def test_readers_of_two_installations_do_not_end_each_other(
    maria: MariaWorld, mariadb_server: MariaDbServer, tmp_path: Path
) -> None:
    with maria_world(mariadb_server, tmp_path / "other") as other:
        other.run(T)
        one, two = maria.following(FIRST), other.following(FIRST)
        for n in (1, 2):
            maria.run(f"INSERT INTO t VALUES ({n}, 'a')")
            other.run(f"INSERT INTO t VALUES ({n}, 'b')")
            maria.durable(one)
            other.durable(two)
        assert [c.values["v"] for c in maria.changes()] == ["a", "a"]
        assert [c.values["v"] for c in other.changes()] == ["b", "b"]


def test_a_log_that_was_deleted_is_named_and_passed_over_when_decided(
    maria: MariaWorld,
) -> None:
    run = maria.following(FIRST)
    maria.run("INSERT INTO t VALUES (1, 'a')")
    maria.durable(run)
    run.kill()
    maria.run("INSERT INTO t VALUES (2, 'b')", "FLUSH BINARY LOGS")
    maria.end_dumps()  # of who is gone the server learns late, and keeps its file
    maria.purge()
    outcome, error = maria.start(FIRST).until_failed()
    assert (outcome, error.code) == ("terminal", "log_lost")
    assert "gone" in error.message
    run = maria.following(FIRST, begin_anew=True)
    maria.run("INSERT INTO t VALUES (3, 'c')")
    maria.durable(run)
    assert [one.values["id"] for one in maria.changes()] == [1, 3]
    assert ("deferred", 1) in maria.controls()


def test_what_other_writers_did_and_the_server_deleted_stops_nothing(
    maria: MariaWorld,
) -> None:
    """PeerDB PR #4601, debezium/dbz#1385: transactions of a domain and a server that we
    never met are among those that the server has, and gone from its log."""
    maria.run(
        "SET SESSION gtid_domain_id = 7, server_id = 99",
        "INSERT INTO mark VALUES (-1)",
        "SET SESSION gtid_domain_id = 0, server_id = 1",
        "FLUSH BINARY LOGS",
    )
    maria.purge()
    run = maria.following(FIRST)
    maria.run("INSERT INTO t VALUES (1, 'a')")
    maria.run(
        "SET SESSION gtid_domain_id = 8, server_id = 99",
        "INSERT INTO t VALUES (2, 'theirs')",
        "SET SESSION gtid_domain_id = 0, server_id = 1",
        "INSERT INTO t VALUES (3, 'c')",
    )
    maria.durable(run)
    assert [one.values["id"] for one in maria.changes()] == [1, 2, 3]


def test_a_log_that_was_reset_is_another_one(maria: MariaWorld) -> None:
    """airbyte#85783: numbers begin anew, and nothing more came. The file of that name
    is another one, however long it is."""
    maria.run("RESET MASTER")
    run = maria.following(FIRST)
    maria.run("INSERT INTO t VALUES (1, 'a')")
    maria.durable(run)
    run.kill()
    newest = maria.newest()
    assert newest is not None
    made = MariaDbLog.decode(newest.end).made
    while True:  # files are known by the second in which they were made
        maria.run("RESET MASTER", "INSERT INTO t VALUES (2, repeat('b', 2000))")
        maria.run("DELETE FROM t WHERE id = 2")
        with closing(maria.server.connect()) as link, link.cursor() as cursor:
            cursor.execute("SELECT unix_timestamp()")
            if int(cursor.fetchone()[0]) > made + 1:
                break
    outcome, error = maria.start(FIRST).until_failed()
    assert (outcome, error.code) == ("terminal", "source_changed")
    assert "another log under the name" in error.message


CHANGED = [
    ("DROP TABLE u", "was changed at the source by a statement"),
    ("ALTER TABLE u CHANGE v w text", "was changed at the source by a statement"),
    ("RENAME TABLE u TO w", "was changed at the source by a statement"),
]


@pytest.mark.parametrize(("statement", "words"), CHANGED)
def test_what_the_log_has_no_rows_of_defers_that_table_alone(
    maria: MariaWorld, statement: str, words: str
) -> None:
    maria.run(T.replace(" t ", " u "))
    other = maria.of(FollowTable(maria_table(2, "u"), load="first"))
    run = maria.following(FIRST, other)
    maria.run("INSERT INTO u VALUES (1, 'a')")
    maria.run(
        statement, "INSERT INTO t VALUES (1, 'a')", "ALTER TABLE t ADD COLUMN n int"
    )
    maria.run("INSERT INTO t (id) VALUES (2)", "CREATE TABLE nobodys (id int)")
    maria.durable(run)
    run.until(lambda s: [t.state for t in s.tables][1] == "deferred", "its deferral")
    assert words in run.problem(2)
    assert [one.values["id"] for one in maria.changes()] == [1, 2]
    assert run.until(lambda s: s.tables[0].new_columns, "it").tables[0].new_columns == (
        "n",
    )


@pytest.mark.parametrize("is_known", [True, False])
def test_what_a_table_was_before_its_load_is_no_matter(
    maria: MariaWorld, *, is_known: bool
) -> None:
    """Of a reader that is behind: its log has rows and the end of another table that
    had the name, in other columns."""
    other = FollowTable(maria_table(7, "u"), load="first")
    run = maria.following(*[FIRST] * is_known, other)
    maria.durable(run)
    run.kill()
    maria.run(
        "INSERT INTO t (id, v) VALUES (1, 'former')",
        "ALTER TABLE t DROP v",
        "DELETE FROM t",
        "DROP TABLE t",
        T,
        "INSERT INTO t (id, v) VALUES (2, 'present')",
    )
    anew = replace(FIRST, load="second")
    run = maria.following(anew, other)

    def cut_of() -> int | None:
        said = [(s.number, c) for s in maria.segments() for c in s.controls]
        cuts = (n for n, c in said if (c.kind, c.load) == ("cut", "second"))
        return next(cuts, None)

    cut = wait_for(cut_of, "its cut")
    maria.run("INSERT INTO t (id, v) VALUES (3, 'behind')")
    maria.durable(run)
    behind = [one.values["id"] for one in maria.changes() if one.segment > cut]
    assert behind == [3]
    assert run.problem(1) == ""
    assert ("deferred", 1) not in maria.controls()


@pytest.fixture
def shops(maria: MariaWorld) -> Iterator[tuple[str, str]]:
    """Two databases with a table `t` each."""
    names = f"{maria.dsn}_1", f"{maria.dsn}_2"
    for name in names:
        maria.server.create_database(name)
        maria.run(T.replace(" t ", f" {name}.t "))
    yield names
    for name in names:
        maria.server.drop_database(name)


@pytest.mark.parametrize(
    "end", first_then_long("DROP TABLE {t}", "RENAME TABLE {t} TO {t}_former")
)
def test_a_shard_that_was_made_anew_is_not_taken_for_the_former_one(
    maria: MariaWorld, shops: tuple[str, str], end: str
) -> None:
    """The reader died behind its end, and nobody was told of it yet: rows of the new
    table were passed over."""
    sharded = replace(
        maria_table(1),
        source_schema=shops[0],
        columns=(ColumnSpec(SHARD, "shop", "", "string"), *maria_table(1).columns),
        key=(SHARD, "id"),
        shards=tuple(ShardSpec(name, "t", name[-1]) for name in shops),
    )
    one = FollowTable(sharded, load="first")
    first, second = shops
    # not in the world's own database
    run = World.start(maria, one)
    run.until(lambda s: "cut" in {t.state for t in s.tables[:1]}, "its cut")
    maria.run(
        f"INSERT INTO {second}.t VALUES (1, 'former')",
        end.format(t=f"{second}.t"),
        T.replace(" t ", f" {second}.t "),
        f"INSERT INTO {second}.t VALUES (2, 'new')",
    )
    maria.durable(run)
    run.kill()
    run = World.start(maria, one)
    gone = (f"{second}.t",)
    run.until(lambda s: gone in {t.gone for t in s.tables}, "that it is told")
    maria.run(
        f"INSERT INTO {second}.t VALUES (3, 'new')",
        f"INSERT INTO {first}.t VALUES (1, 'other')",
    )
    maria.durable(run)
    assert [(c.values[SHARD], c.values["v"]) for c in maria.changes()] == [
        ("2", "former"), ("1", "other"),
    ]  # fmt: skip
    assert (run.problem(1), maria.reasons()) == ("", [])


def test_a_statement_in_place_of_rows_defers_what_it_may_have_changed(
    maria: MariaWorld,
) -> None:
    """Its text names a view, of which the log has nothing."""
    maria.run("CREATE VIEW w AS SELECT * FROM t")
    run = maria.following(FIRST)
    maria.run(
        "SET SESSION binlog_format = 'STATEMENT'", "INSERT INTO w VALUES (1, 'x')"
    )
    maria.run("SET SESSION binlog_format = 'ROW'")
    run.until(lambda s: s.tables[0].state == "deferred", "its deferral")
    assert "INSERT INTO w" in run.problem(1)


@pytest.mark.parametrize("quotes", ["ON", "OFF"])
def test_tables_that_cannot_be_followed_are_named(
    maria: MariaWorld, request: pytest.FixtureRequest, quotes: str
) -> None:
    """However the server shows definitions to others."""
    default = "SET GLOBAL sql_quote_show_create = ON"
    request.addfinalizer(lambda: maria.run(default))
    maria.run(
        f"SET GLOBAL sql_quote_show_create = {quotes}",
        "CREATE TABLE m (id int PRIMARY KEY, v text) ENGINE = Aria",
        "CREATE TABLE c (id int PRIMARY KEY, v text, t int,"
        " FOREIGN KEY (t) REFERENCES t (id) ON DELETE CASCADE)",
        "CREATE TABLE h (id int PRIMARY KEY, v text) WITH SYSTEM VERSIONING",
        "CREATE TABLE k (id varchar(9) PRIMARY KEY, v text)",
    )
    words = {
        "m": "its engine is Aria",
        "c": "which the log does not have",
        "h": "former versions",
        "k": "the type of id was int(11) and is varchar(9)",
        "gone": "there is no table",
    }
    tables = {
        n: maria.of(FollowTable(maria_table(n, name), load="first"))
        for n, name in enumerate(words, start=10)
    }
    run = maria.following(FIRST, *tables.values())
    maria.run("INSERT INTO t VALUES (1, 'a')")
    maria.durable(run)
    for number, one in tables.items():
        assert words[one.table.source_table] in run.problem(number)
    assert maria.controls() == [("added", 1), ("cut", 1)]


def test_settings_and_rights_that_are_missing_are_named(
    maria: MariaWorld, mariadb_server: MariaDbServer
) -> None:
    mariadb_server.create_user("few", "pw", [f"SELECT ON {maria.dsn}.*"])
    outcome, error = maria.start(FIRST, dsn="few:pw").until_failed()
    assert (outcome, error.code) == ("invalid_request", "source_privilege_missing")
    mariadb_server.run("GRANT BINLOG MONITOR ON *.* TO few@'%'")
    outcome, error = maria.start(FIRST, dsn="few:pw").until_failed()
    assert (outcome, error.code) == ("invalid_request", "source_privilege_missing")
    assert "REPLICATION SLAVE" in error.hint
    mariadb_server.run("GRANT REPLICATION SLAVE ON *.* TO few@'%'")
    run = maria.following(FIRST, dsn="few:pw")
    maria.run("INSERT INTO t VALUES (1, 'a')")
    maria.durable(run)
    run.kill()
    maria.run("SET GLOBAL binlog_row_image = 'MINIMAL'")
    try:
        outcome, error = maria.start(FIRST).until_failed()
    finally:
        maria.run("SET GLOBAL binlog_row_image = 'FULL'")
    assert (outcome, error.code) == ("invalid_request", "source_log_off")
    assert "binlog_row_image = 'FULL'" in error.hint
