"""What a follower needs at its source, makes there, and names when it is not so. No table
that cannot be followed stops another."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import psycopg
import pytest

from core.errors import TerminalError
from ingest.contract.following import FollowTable
from ingest.contract.segments import Control
from ingest.contract.source_positions import PostgresLog
from ingest.lake.chain import begin_stream, take_over
from ingest.sources.port import LogNames
from ingest.sources.postgresql.log.connection import open_log
from ingest.sources.postgresql.log.control import open_control
from ingest.sources.registry import open_log_reader
from tests.integration.ingest.following import STREAM, World, table
from tests.long_tests import first_then_long
from tests.source_access import postgresql_at
from tests.source_server import SourceServer
from tests.waiting import wait_for

T = "CREATE TABLE t (id int PRIMARY KEY, v text)"
FIRST = FollowTable(table(1), load="first")


def second(**more: object) -> FollowTable:
    return FollowTable(table(2, "u", **more), load="first")  # type: ignore[arg-type]


@dataclass(frozen=True)
class Case:
    """A table u that is made, or changed, by statements; what is said of it then."""

    statements: str
    words: str
    more: dict[str, object] = field(default_factory=dict)


MADE = "CREATE TABLE {u} (id int PRIMARY KEY, v text)"
PARTS = (
    "CREATE TABLE {u} (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);"
    " CREATE TABLE {u}_0 PARTITION OF {u} FOR VALUES FROM (0) TO (10);"
    " CREATE TABLE {u}_1 PARTITION OF {u} FOR VALUES FROM (10) TO (20)"
)
REFUSED = [
    Case("CREATE TABLE {u} (id int, v text)", "would refuse updates and deletes"),
    Case(MADE + "; ALTER TABLE {u} REPLICA IDENTITY NOTHING", "IDENTITY NOTHING"),
    Case(
        "CREATE TABLE {u} (id int PRIMARY KEY, v text NOT NULL UNIQUE);"
        " ALTER TABLE {u} REPLICA IDENTITY USING INDEX {u}_v_key",
        "does not have id of its key",
    ),
    Case(MADE, "partitioned in the lake by v", {"partition_by": ("v",)}),
    Case(
        "CREATE TABLE {u} (id int PRIMARY KEY, v text GENERATED ALWAYS AS ('x') STORED)",
        "what PostgreSQL generates (v)",
    ),
    Case(
        "CREATE TABLE {u} (id uuid PRIMARY KEY, v text)",
        "the type of id was integer and is uuid now",
    ),
    Case("SELECT", "there is no table public.{u}"),
    Case("CREATE VIEW {u} AS SELECT 1 AS id, '' AS v", "is not an ordinary table"),
    Case("CREATE UNLOGGED" + MADE.removeprefix("CREATE"), "is not an ordinary table"),
    Case(
        MADE + "; CREATE TABLE child () INHERITS ({u})", "child tables by inheritance"
    ),
    Case(
        PARTS + "; ALTER TABLE {u} REPLICA IDENTITY FULL",
        "its partition public.{u}_0 (and 1 more) does not have",
    ),
    Case(
        PARTS + "; ALTER TABLE {u}_1 REPLICA IDENTITY NOTHING",
        "its partition public.{u}_1 does not have",
    ),
]
ALTERED = [
    Case("ALTER TABLE {u} DROP v", "no column v any more"),
    Case(
        "ALTER TABLE {u} ALTER v TYPE int USING 0",
        "the type of v was text and is integer now",
    ),
    Case("ALTER TABLE {u} DROP CONSTRAINT {u}_pkey", "would refuse updates"),
    Case("DROP TABLE {u}", "there is no table public.{u}"),
    Case(
        "ALTER TABLE {u} RENAME TO {u}_kept", "is called public.{u}_kept at the source"
    ),
    Case("DROP TABLE {u}; " + MADE, "was dropped and made again"),
    Case("ALTER TABLE {u} DROP v, ADD v text", "v was dropped at the source and added"),
]


def tables(cases: list[Case]) -> list[tuple[FollowTable, Case]]:
    """u10, u11, …"""
    found = []
    for number, case in enumerate(cases, start=10):
        spec = table(number, f"u{number}", **case.more)
        found.append((FollowTable(spec, load="first"), case))
    return found


def test_tables_that_cannot_be_followed_are_named(followed: World) -> None:
    link = followed.link
    link.execute(T)
    refused = tables(REFUSED)
    for one, case in refused:
        link.execute(case.statements.format(u=one.table.source_table))
    run = followed.following(FIRST, *(one for one, _ in refused))
    link.execute("INSERT INTO t VALUES (1, 'a')")
    followed.durable(run)
    for one, case in refused:
        words = case.words.format(u=one.table.source_table)
        assert words in run.problem(one.table.table_id)
    assert followed.controls() == [("added", 1), ("cut", 1)]
    assert [one.values["id"] for one in followed.changes()] == [1]
    # nobody's writes there depend on us
    link.execute("UPDATE u10 SET id = 1; UPDATE u11 SET id = 1; DELETE FROM u11")


@pytest.mark.long
def test_what_changes_while_it_is_followed_defers_that_table(followed: World) -> None:
    link = followed.link
    link.execute(T)
    altered = tables(ALTERED)
    for one, _ in altered:
        link.execute(MADE.format(u=one.table.source_table))
    run = followed.following(FIRST, *(one for one, _ in altered))
    for one, _ in altered:
        link.execute(f"INSERT INTO {one.table.source_table} VALUES (1, 'a')")
    followed.durable(run)
    for one, case in altered:
        link.execute(case.statements.format(u=one.table.source_table))
    run.want(FIRST, *(one for one, _ in altered))  # who gets a list looks at once
    run.until(
        lambda s: [t.state for t in s.tables[1:-1]] == ["deferred"] * len(altered),
        "their deferral",
    )
    link.execute("INSERT INTO t VALUES (1, 'a')")
    followed.durable(run)
    controls = [c for s in followed.segments() for c in s.controls]
    for number, case in enumerate(ALTERED, start=10):
        words = case.words.format(u=f"u{number}")
        assert words in run.problem(number)
        (reason,) = [c.reason for c in controls if c.reason and c.table_id == number]
        assert words in reason
        assert [one.values["id"] for one in followed.changes(number)] == [1]
    assert [one.values["id"] for one in followed.changes(1)] == [1]
    # a table that is in the publication without an identity cannot be written to
    link.execute("UPDATE u12 SET id = 2")


@pytest.mark.long
def test_a_table_that_left_its_publication_for_a_while_is_deferred(
    followed: World,
) -> None:
    """seatunnel PR #11556: what changed meanwhile is not in the log."""
    link = followed.link
    link.execute(T)
    run = followed.following(FIRST)
    run.until(lambda s: s.tables[0].state == "cut", "its cut")
    own = followed.spec.publication
    for verb in ("DROP", "ADD"):
        link.execute(f"ALTER PUBLICATION {own} {verb} TABLE t")
    run.want(FIRST, second())
    run.until(lambda s: s.tables[0].state == "deferred", "its deferral")
    assert "for a while" in run.problem(1)
    run.want(replace(FIRST, load="next"))
    run.until(lambda s: s.tables[0].state == "cut", "its next cut")
    assert run.problem(1) == ""


CHANGES_AND_BACK = [
    ["ALTER TABLE t DROP v", "ALTER TABLE t ADD v text"],
    ["ALTER TABLE t RENAME v TO w", "ALTER TABLE t RENAME w TO v"],
    [f"ALTER TABLE t REPLICA IDENTITY {one}" for one in ("NOTHING", "DEFAULT")],
]


@pytest.mark.parametrize("statements", first_then_long(*CHANGES_AND_BACK))
def test_what_was_passed_over_is_not_forgotten(
    followed: World, statements: list[str]
) -> None:
    """The table is as it was before anybody looks at it."""
    change, back = statements
    link = followed.link
    link.execute(T)
    run = followed.following(FIRST)
    link.execute("INSERT INTO t VALUES (1, 'a')")
    followed.durable(run)
    with link.transaction():
        link.execute(change)
        link.execute("INSERT INTO t (id) VALUES (2)")
        link.execute(back)
        link.execute("INSERT INTO t VALUES (3, 'c')")
    followed.durable(run)
    assert followed.controls()[-1] == ("deferred", 1)
    assert run.problem(1)


@pytest.mark.parametrize("is_killed", first_then_long(True, False))
def test_a_table_that_was_not_published_for_a_while_is_deferred(
    followed: World, *, is_killed: bool
) -> None:
    link, own = followed.link, followed.spec.publication
    link.execute(T)
    run = followed.following(FIRST)
    link.execute("INSERT INTO t VALUES (1, 'a')")
    followed.durable(run)
    if is_killed:
        run.kill()
    link.execute(f"ALTER PUBLICATION {own} DROP TABLE t")
    link.execute("INSERT INTO t VALUES (2, 'b')")
    if is_killed:
        run = followed.following(FIRST)
    else:
        run.want(FIRST)  # who gets a list looks at once
    run.until(lambda s: s.tables[0].state == "deferred", "its deferral")
    assert "resync the table" in run.problem(1)
    run.want(FollowTable(table(1), load="second"))
    run.until(lambda s: s.tables[0].state == "cut", "its cut")
    link.execute("INSERT INTO t VALUES (3, 'c')")
    followed.durable(run)
    assert followed.controls()[-1] == ("cut", 1)
    assert followed.changes()[-1].values["id"] == 3


def test_a_table_that_somebody_works_on_stops_no_other(followed: World) -> None:
    link = followed.link
    link.execute(T)
    link.execute(MADE.format(u="u"))
    run = followed.following(FIRST, second())
    followed.durable(run)
    link.execute("ALTER TABLE u REPLICA IDENTITY NOTHING")
    with psycopg.connect(followed.dsn) as other:
        other.execute("LOCK u IN SHARE UPDATE EXCLUSIVE MODE")  # as VACUUM does
        run.want(FIRST, second())
        run.until(lambda s: s.tables[1].state == "deferred", "its deferral")
        link.execute("INSERT INTO t VALUES (1, 'a')")
        followed.durable(run)
    assert [one.values["id"] for one in followed.changes()] == [1]


def test_a_type_that_changes_within_the_log_is_met_there(followed: World) -> None:
    """Rows of before it are taken, and none of after."""
    link = followed.link
    link.execute(T)
    link.execute("CREATE TABLE u (id int PRIMARY KEY, v text)")
    run = followed.following(FIRST, second())
    with link.transaction():
        link.execute("INSERT INTO u VALUES (1, 'a')")
        link.execute("ALTER TABLE u ALTER id TYPE text")
        link.execute("INSERT INTO u VALUES ('5000000000', 'b')")
    run.until(lambda s: s.tables[1].state == "deferred", "its deferral")
    followed.durable(run)
    assert [one.values["id"] for one in followed.changes(2)] in ([], [1])


def test_rows_of_partitions_come_under_their_table(followed: World) -> None:
    link = followed.link
    link.execute("CREATE TABLE t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)")
    link.execute("CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10)")
    run = followed.following(FIRST)
    link.execute("INSERT INTO t VALUES (1, 'a')")
    link.execute("CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (10) TO (20)")
    link.execute("INSERT INTO t VALUES (11, 'b')")
    link.execute("UPDATE t SET id = 12 WHERE id = 1")
    followed.durable(run)
    assert [(one.op, one.values["id"]) for one in followed.changes()] == [
        ("insert", 1), ("insert", 11), ("delete", 1), ("insert", 12),
    ]  # fmt: skip


def test_partitions_are_followed_once_their_log_has_what_their_table_says(
    followed: World,
) -> None:
    link = followed.link
    link.execute(PARTS.format(u="t") + "; ALTER TABLE t REPLICA IDENTITY FULL")
    run = followed.following(FIRST)
    problem = run.until(lambda s: s.tables and s.tables[0].problem, "the problem")
    statement = problem.tables[0].problem.partition("at the source: ")[2]
    link.execute(statement.partition(" then resync")[0])
    run.want(FIRST)  # who gets a list looks at once
    run.until(lambda s: s.tables and s.tables[0].state == "cut", "its cut")
    link.execute("INSERT INTO t VALUES (1, 'a')")
    link.execute("DELETE FROM t")
    followed.durable(run)
    assert [(one.op, one.values) for one in followed.changes()] == [
        ("insert", {"id": 1, "v": "a"}), ("delete", {"id": 1, "v": "a"}),
    ]  # fmt: skip


def test_a_slot_that_somebody_else_reads_is_named(followed: World, reader: str) -> None:
    link, name = followed.link, followed.spec.slot
    link.execute("CREATE PUBLICATION theirs FOR ALL TABLES")
    link.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [name])
    with open_log(postgresql_at(followed.dsn)) as theirs:
        theirs.start(name, ["theirs"], after=0)
        outcome, error = followed.start(dsn=reader).until_failed()
    assert (outcome, error.code) == ("transient", "slot_in_use")


def test_a_login_that_may_not_read_the_log(followed: World, source_pg) -> None:
    source_pg.create_user("reads_tables", "pw", "NOREPLICATION")
    database = followed.dsn.rpartition("/")[2]
    dsn = f"postgresql://reads_tables:pw@{source_pg.host}:{source_pg.port}/{database}"
    outcome, error = followed.start(dsn=dsn).until_failed()
    assert (outcome, error.code) == ("invalid_request", "source_privilege_missing")
    assert error.hint == 'at the source: ALTER ROLE "reads_tables" REPLICATION'


def test_a_slot_waits_for_transactions_that_are_open(followed: World) -> None:
    followed.link.execute(T)
    with psycopg.connect(followed.dsn, application_name="nightly") as holder:
        holder.execute("INSERT INTO t VALUES (1, 'open')")
        run = followed.start(FIRST)
        state = run.until(lambda s: s.reason, "the reason")
        assert state.observed == "waiting"
        assert f"pid {holder.info.backend_pid}" in state.reason
        assert "nightly" in state.reason
        run.want(FIRST, second())
        holder.rollback()
    run.until(lambda s: s.observed == "following", "it follows")
    # the list that came meanwhile counts
    run.until(lambda s: len(s.tables) == 3, "the list")


@pytest.mark.long
def test_a_publication_that_is_dropped_is_named(followed: World) -> None:
    followed.link.execute(T)
    run = followed.following(FIRST)
    followed.durable(run)
    followed.link.execute(f"DROP PUBLICATION {followed.spec.publication}")
    _, error = run.until_failed()
    assert error.code == "publication_missing"
    # made anew it says nothing of what came before
    run = followed.following(FIRST)
    run.until(lambda s: s.tables[0].state == "deferred", "it asks for a resync")
    assert "taken out of its publication for a while" in run.problem(1)
    run.kill()
    run = followed.following(FollowTable(table(1), load="anew"), begin_anew=True)
    followed.durable(run)
    assert followed.controls()[-2:] == [("deferred", 1), ("cut", 1)]


def test_a_reader_that_is_killed_early_goes_on(followed: World) -> None:
    """Another slot of the server holds back what it keeps, so that the reader's own
    seems older than its publication."""
    link = followed.link
    link.execute(T)
    link.execute("SELECT pg_create_logical_replication_slot('older', 'pgoutput')")
    try:
        for _ in range(3):
            link.execute("SELECT txid_current()")
        run = followed.following(FIRST)
        run.until(lambda s: s.tables[0].state == "cut", "its cut")
        run.kill()
        run = followed.following(FIRST)
        link.execute("INSERT INTO t VALUES (1, 'a')")
        followed.durable(run)
    finally:
        link.execute("SELECT pg_drop_replication_slot('older')")
    assert [one.values["id"] for one in followed.changes()] == [1]


def test_a_slot_that_is_gone_is_named_and_passed_over_when_decided(
    followed: World,
) -> None:
    """airbyte#80295: the way out of a lost slot has to lead out."""
    link = followed.link
    link.execute(T)
    run = followed.following(FIRST)
    followed.durable(run)
    run.kill()
    drop_slot(followed)
    link.execute("INSERT INTO t VALUES (1, 'lost')")
    outcome, error = followed.start(FIRST).until_failed()
    assert (outcome, error.code) == ("terminal", "log_lost")
    assert "is gone" in error.message
    run = followed.following(FIRST, begin_anew=True)
    run.until(lambda s: "are missing" in s.tables[0].problem, "what is missing")
    assert "is gone" in run.problem(1)
    run.want(FollowTable(table(1), load="anew"))
    run.until(lambda s: s.tables[0].state == "cut", "a new load")
    link.execute("INSERT INTO t VALUES (2, 'new')")
    followed.durable(run)
    assert [one.values["id"] for one in followed.changes()] == [2]
    # it does nothing where nothing is lost
    run.kill()
    run = followed.following(FollowTable(table(1), load="anew"), begin_anew=True)
    followed.durable(run)
    assert followed.controls() == [
        ("added", 1), ("cut", 1), ("deferred", 1), ("cut", 1),
    ]  # fmt: skip


def drop_slot(world: World) -> None:
    named = "FROM pg_replication_slots WHERE slot_name = %s AND NOT active"
    wait_for(
        lambda: world.link.execute(
            f"SELECT pg_drop_replication_slot(slot_name) {named}", [world.spec.slot]
        ).fetchall(),
        "the slot to go",
    )


def test_a_slot_that_is_ahead_of_the_lake_is_named(followed: World) -> None:
    """risingwave#25071, airbyte#55846: the server would leave out what is between, and
    say nothing."""
    link = followed.link
    link.execute(T)
    run = followed.following(FIRST)
    followed.durable(run)
    run.kill()
    link.execute("INSERT INTO t VALUES (1, 'lost')")
    drop_slot(followed)
    link.execute(
        "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')",
        [followed.spec.slot],
    )
    outcome, error = followed.start(FIRST).until_failed()
    assert (outcome, error.code) == ("terminal", "log_lost")
    assert "stands at" in error.message


def test_a_reader_that_goes_on_meanwhile_is_no_loss(followed: World) -> None:
    """Its slot moves on between our look at that and at the stream's end."""
    link, spec = followed.link, followed.spec
    run = followed.following()
    run.kill()
    newest = followed.newest()
    assert newest is not None

    def after() -> str:
        wait_for(lambda: not is_active(), "the slot to be free")
        link.execute("INSERT INTO mark VALUES (1)")
        move = "SELECT pg_replication_slot_advance(%s, pg_current_wal_lsn())"
        link.execute(move, [spec.slot])
        return newest.end

    def is_active() -> bool:
        named = "FROM pg_replication_slots WHERE active AND slot_name = %s"
        return bool(link.execute(f"SELECT 1 {named}", [spec.slot]).fetchall())

    names = LogNames(spec.slot, spec.publication)
    with open_log_reader(
        postgresql_at(followed.dsn), names, [], after=after, begin_anew=True, wait=print
    ) as log:
        assert log.anew == ""


def test_a_log_that_ends_before_what_was_read_is_named(followed: World) -> None:
    """Its server's disk went back, and what it writes from now on has numbers that were
    read."""
    spec = followed.spec
    followed.following().kill()
    newest = followed.newest()
    assert newest is not None
    read = PostgresLog.decode(newest.end)
    further = replace(read, lsn=read.lsn + (1 << 40)).encode()
    names = LogNames(spec.slot, spec.publication)
    access = postgresql_at(followed.dsn)
    with (
        pytest.raises(TerminalError, match="an older state of its disk") as caught,
        open_log_reader(access, names, [], after=lambda: further, wait=print),
    ):
        pass
    assert caught.value.code == "source_changed"


def test_another_database_by_the_same_name_is_never_read_on(
    followed: World, source_pg: SourceServer
) -> None:
    followed.link.execute(T)
    run = followed.following(FIRST)
    followed.durable(run)
    run.kill()
    other = f"other_{followed.spec.slot}"
    another = source_pg.create_database(other)
    try:
        outcome, error = followed.start(FIRST, dsn=another).until_failed()
        assert (outcome, error.code) == ("terminal", "source_changed")
        former = followed.link.info.dbname
        assert f"let the datasource name {former}" in error.hint
        assert followed.confirmed()  # its slot keeps its log

        with psycopg.connect(another, autocommit=True) as link:
            link.execute("CREATE TABLE mark (n int)")
            link.execute("ALTER TABLE mark REPLICA IDENTITY FULL")
            link.execute(T)
            again = replace(FIRST, load="again")
            run = followed.following(again, dsn=another, begin_anew=True)
            run.until(lambda s: not run.problem(1), "it is followed there")
        run.kill()
    finally:
        source_pg.drop_database(other)


def test_another_server_is_never_read_on(followed: World) -> None:
    """A restored copy, a promoted standby: whether its log goes on from ours is not said
    by numbers."""
    place = followed.folder
    begin_stream(place, above=0)
    writer = take_over(
        place, stream=STREAM, writer="before", server="7:1", begin="lsn:7:1:0/1"
    )
    writer.append(end="lsn:7:1:0/2", controls=[Control("added", 1)])
    outcome, error = followed.start().until_failed()
    assert (outcome, error.code) == ("terminal", "source_changed")
    followed.link.execute(T)
    run = followed.following(FIRST, begin_anew=True)
    followed.durable(run)
    assert followed.controls() == [("added", 1), ("deferred", 1), ("cut", 1)]


def test_a_slot_that_is_older_than_its_publication_is_made_anew(
    followed: World,
) -> None:
    """As where the server crashed just after both were made, and had lost one."""
    link, spec = followed.link, followed.spec
    link.execute(T)
    slot = "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')"
    link.execute(slot, [spec.slot])
    run = followed.following(FIRST)
    link.execute("INSERT INTO t VALUES (1, 'a')")
    followed.durable(run)
    assert [one.values["id"] for one in followed.changes()] == [1]


def test_a_login_that_is_limited_by_default_follows(followed: World) -> None:
    """As one may be that is meant to read, and not to stay."""
    link, name = followed.link, followed.dsn.rpartition("/")[2]
    link.execute(T)
    link.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    link.execute(f"ALTER DATABASE {name} SET idle_session_timeout = '1min'")
    run = followed.following(FIRST)
    link.execute("INSERT INTO t VALUES (1, 'a')")
    followed.durable(run)
    assert [one.values["id"] for one in followed.changes()] == [1]
    access = followed.access()
    with open_control(access) as control, open_log(access) as log:
        for session in (control.connection, log.connection):
            found = session.execute("SHOW idle_session_timeout").fetchone()
            assert found == ("0",)
