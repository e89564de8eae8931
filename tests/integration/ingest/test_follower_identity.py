"""A table is the one that was loaded, and not whatever stands under its name, though
nobody followed while that changed."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import replace

import psycopg
import pytest

from ingest.contract.following import FollowTable
from tests.integration.ingest.following import Running, World, table
from tests.long_tests import first_then_long
from tests.waiting import wait_for

T = "CREATE TABLE t (id int PRIMARY KEY, v text)"
FIRST = FollowTable(table(1), load="first")


def until_deferred(
    followed: World, run: Running, wanted: Sequence[FollowTable], why: dict[int, str]
) -> None:
    """Those are, for what is said; "" = it goes on."""
    for _ in range(2):  # the log may be behind what the first look finds
        run.want(*wanted)  # who gets a list looks at once
        followed.durable(run)
    run.until(
        lambda s: all(
            one.state == ("deferred" if why.get(one.table_id) else "cut")
            for one in s.tables[:-1]
        ),
        "their deferrals",
    )
    for number, words in why.items():
        assert words in run.problem(number)


@pytest.mark.parametrize(
    ("statements", "words"),
    first_then_long(
        ("DROP TABLE t; " + T, "public.t was dropped and made again"),
        (
            "ALTER TABLE t DROP v; ALTER TABLE t ADD v text",
            "v was dropped at the source",
        ),
    ),
)
def test_what_was_made_again_while_nobody_followed_is_another(
    followed: World, statements: str, words: str
) -> None:
    """By a publication that has whatever stands under the name."""
    link = followed.link
    link.execute(T)
    link.execute("CREATE PUBLICATION theirs FOR ALL TABLES")
    run = followed.following(FIRST)
    link.execute("INSERT INTO t VALUES (1, 'a')")
    followed.durable(run)
    run.kill()
    link.execute(statements)
    link.execute("INSERT INTO t VALUES (2, 'b')")
    run = followed.following(FIRST)
    run.until(lambda s: s.tables[0].state == "deferred", "its deferral")
    assert words in run.problem(1)
    run.want(replace(FIRST, load="next"))
    run.until(lambda s: s.tables[0].state == "cut", "its next cut")
    link.execute("INSERT INTO t VALUES (3, 'c')")
    followed.durable(run)
    # and that is the one that is known from now on
    run.kill()
    run = followed.following(replace(FIRST, load="next"))
    followed.durable(run)
    assert followed.controls() == [
        ("added", 1), ("cut", 1), ("deferred", 1), ("cut", 1),
    ]  # fmt: skip
    assert followed.changes()[-1].values["id"] == 3


@pytest.mark.long
def test_a_table_that_was_made_again_outside_their_publication(
    followed: World, reader: str
) -> None:
    """That it is in none any more is not what happened to it."""
    link = followed.link
    link.execute(T)
    link.execute("CREATE PUBLICATION theirs FOR TABLE t, mark")
    run = followed.following(FIRST, dsn=reader)
    link.execute("INSERT INTO t VALUES (1, 'a')")
    followed.durable(run)
    link.execute("DROP TABLE t; " + T)
    link.execute("GRANT SELECT ON t TO reads_log")
    run.want(FIRST)  # who gets a list looks at once
    run.until(lambda s: s.tables[0].state == "deferred", "its deferral")
    assert "public.t was dropped and made again" in run.problem(1)
    assert "by a user who may: CREATE PUBLICATION" in run.problem(1)


def test_rows_of_another_table_that_had_the_name_for_a_while_are_not_its(
    followed: World,
) -> None:
    """It has its own again before anybody looks at it, by a publication that has
    whatever stands under the name."""
    link = followed.link
    link.execute(T)
    link.execute("CREATE PUBLICATION theirs FOR ALL TABLES")
    run = followed.following(FIRST)
    link.execute("INSERT INTO t VALUES (1, 'a')")
    followed.durable(run)
    run.signal(signal.SIGSTOP)
    link.execute("ALTER TABLE t RENAME TO former; " + T)
    link.execute("INSERT INTO t VALUES (1, 'another'), (2, 'another')")
    link.execute("DELETE FROM t WHERE id = 1")
    link.execute("DROP TABLE t; ALTER TABLE former RENAME TO t")
    link.execute("INSERT INTO t VALUES (3, 'own')")
    run.signal(signal.SIGCONT)
    followed.durable(run)
    assert run.problem(1) == ""
    found = [(one.op, one.values["id"]) for one in followed.changes()]
    assert found == [("insert", 1), ("insert", 3)]


def test_what_came_under_another_name_is_not_forgotten(followed: World) -> None:
    """The table has its own again before anybody looks at it."""
    link = followed.link
    link.execute(T)
    run = followed.following(FIRST)
    link.execute("INSERT INTO t VALUES (1, 'a')")
    followed.durable(run)
    with link.transaction():
        link.execute("ALTER TABLE t RENAME TO w")
        link.execute("INSERT INTO w VALUES (2, 'b')")
        link.execute("ALTER TABLE w RENAME TO t")
        link.execute("INSERT INTO t VALUES (3, 'c')")
    followed.durable(run)
    assert followed.controls()[-1] == ("deferred", 1)
    reasons = [c.reason for s in followed.segments() for c in s.controls if c.reason]
    assert ["renamed to public.w" in reason for reason in reasons] == [True]
    assert run.problem(1)


def test_what_came_under_the_name_of_a_followed_table_is_not_forgotten(
    followed: World,
) -> None:
    """Two swapped their names, and swap them back before anybody looks."""
    link = followed.link
    link.execute(T)
    link.execute("CREATE TABLE u (id int PRIMARY KEY, v text)")
    other = FollowTable(table(2, "u"), load="first")
    run = followed.following(FIRST, other)
    link.execute("INSERT INTO t VALUES (1, 'a')")
    followed.durable(run)
    swap = "ALTER TABLE t RENAME TO w; ALTER TABLE u RENAME TO t; ALTER TABLE w RENAME TO u"
    with link.transaction():
        link.execute(swap)
        link.execute("INSERT INTO u VALUES (2, 'of t')")
        link.execute(swap)
    followed.durable(run)
    assert followed.controls()[-1] == ("deferred", 1)
    assert "renamed to public.u" in run.problem(1)
    link.execute("INSERT INTO u VALUES (3, 'of u')")
    followed.durable(run)
    assert run.problem(2) == ""
    assert [one.values["id"] for one in followed.changes(2)] == [3]


@pytest.mark.parametrize("has_both", first_then_long(True, False))
def test_what_came_as_a_partition_of_another_table_is_not_forgotten(
    followed: World, *, has_both: bool
) -> None:
    """It was one for a while, and nobody looked then."""
    link = followed.link
    link.execute(T)
    link.execute("CREATE TABLE u (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)")
    via_root = "WITH (publish_via_partition_root)"
    if not has_both:
        link.execute(f"CREATE PUBLICATION theirs FOR ALL TABLES {via_root}")
    other = FollowTable(table(2, "u"), load="first")
    run = followed.following(*([FIRST, other] if has_both else [FIRST]))
    link.execute("INSERT INTO t VALUES (1, 'a')")
    followed.durable(run)
    link.execute("ALTER TABLE u ATTACH PARTITION t FOR VALUES FROM (0) TO (100)")
    link.execute("INSERT INTO t VALUES (2, 'b')")
    link.execute("ALTER TABLE u DETACH PARTITION t")
    link.execute("INSERT INTO t VALUES (3, 'c')")
    followed.durable(run)
    assert ("deferred", 1) in followed.controls()
    assert "public.u at the source, or attached to it" in run.problem(1)


@pytest.mark.parametrize(
    ("altered", "words"),
    first_then_long(
        ("ALTER TYPE m RENAME VALUE 'a' TO 'z'", "v (a → z)"),
        ("ALTER TYPE c ADD ATTRIBUTE y int", "w (attributes 1 → attributes 1 2)"),
    ),
)
def test_values_that_read_otherwise_since_their_type_was_altered(
    followed: World, altered: str, words: str
) -> None:
    """No row is written by that. New labels are no such thing, nor are columns that are
    not planned."""
    link = followed.link
    link.execute("CREATE TYPE m AS ENUM ('a', 'b'); CREATE TYPE n AS ENUM ('a', 'b')")
    link.execute("CREATE TYPE c AS (x int)")
    link.execute("CREATE TABLE t (id int PRIMARY KEY, v m[], w c, o n)")
    columns = {"id": "integer as int", "v": "m as array<string>", "w": "c as string"}
    of_types = replace(FIRST, table=table(1, columns=columns, left_out=("o",)))
    run = followed.following(of_types)
    link.execute("INSERT INTO t VALUES (1, '{a}', ROW(1), 'a')")
    followed.durable(run)
    link.execute("ALTER TYPE m ADD VALUE 'c'; ALTER TYPE n RENAME VALUE 'a' TO 'z'")
    run.want(of_types)  # who gets a list looks at once
    followed.durable(run)
    assert run.problem(1) == ""
    run.kill()
    link.execute(altered)
    run = followed.following(of_types)
    run.until(lambda s: s.tables[0].state == "deferred", "its deferral")
    assert words in run.problem(1)


@pytest.mark.parametrize(
    "statements",
    [
        "ALTER PUBLICATION {own} DROP TABLE t; ALTER PUBLICATION {own} ADD TABLE t",
        "ALTER PUBLICATION {own} SET (publish = 'insert');"
        " ALTER PUBLICATION {own}"
        " SET (publish = 'insert, update, delete, truncate')",
    ],
)
def test_what_was_not_sent_while_nobody_followed_is_missed(
    followed: World, statements: str
) -> None:
    link = followed.link
    link.execute(T)
    run = followed.following(FIRST)
    run.until(lambda s: s.tables[0].state == "cut", "its cut")
    run.kill()
    link.execute(statements.format(own=followed.spec.publication))
    run = followed.following(FIRST)
    run.until(lambda s: s.tables[0].state == "deferred", "its deferral")
    assert "for a while" in run.problem(1)


@pytest.mark.long
@pytest.mark.parametrize(
    ("is_interrupted", "first"),
    [(True, "DROP TABLES IN SCHEMA public"), (False, "ADD TABLE t")],
)
def test_a_schema_that_left_a_publication_for_a_while(
    followed: World, first: str, *, is_interrupted: bool
) -> None:
    """PostgreSQL has no row in the catalog for each of its tables."""
    link = followed.link
    link.execute(T)
    link.execute("CREATE PUBLICATION theirs FOR TABLES IN SCHEMA public, TABLE mark")
    run = followed.following(FIRST)
    run.until(lambda s: s.tables[0].state == "cut", "its cut")
    link.execute(f"ALTER PUBLICATION theirs {first}")
    if not is_interrupted:
        run.want(FIRST)  # who gets a list looks at once
        followed.durable(run)
        link.execute("ALTER PUBLICATION theirs DROP TABLES IN SCHEMA public")
        run.want(FIRST)
        followed.durable(run)
    link.execute("ALTER PUBLICATION theirs ADD TABLES IN SCHEMA public")
    run.want(FIRST)
    followed.durable(run)
    assert ("for a while" in run.problem(1)) == is_interrupted


def test_a_table_that_left_a_schema_for_a_while(followed: World) -> None:
    """Nobody looked meanwhile, and what changed there was not sent."""
    link = followed.link
    link.execute(T)
    link.execute("CREATE PUBLICATION theirs FOR TABLES IN SCHEMA public")
    link.execute("CREATE SCHEMA other")
    run = followed.following(FIRST)
    run.until(lambda s: s.tables[0].state == "cut", "its cut")
    link.execute("ALTER TABLE t SET SCHEMA other")
    link.execute("INSERT INTO other.t VALUES (1, 'a')")
    link.execute("ALTER TABLE other.t SET SCHEMA public")
    run.want(FIRST)
    followed.durable(run)
    assert "for a while" in run.problem(1)
    assert followed.changes() == []


@pytest.mark.long
def test_a_mended_table_waits_for_no_row(followed: World) -> None:
    """What the log said of it last is how it was before."""
    link = followed.link
    link.execute(T)
    run = followed.following(FIRST)
    link.execute("ALTER TABLE t REPLICA IDENTITY NOTHING")
    link.execute("INSERT INTO t VALUES (1, 'a')")
    run.until(lambda s: s.tables[0].state == "deferred", "its deferral")
    link.execute("ALTER TABLE t REPLICA IDENTITY DEFAULT")
    run.want(replace(FIRST, load="next"))
    run.until(lambda s: s.tables[0].state == "cut", "its next cut")
    link.execute("UPDATE t SET v = 'b'")
    followed.durable(run)
    assert [one.values for one in followed.changes()][-1] == {"id": 1, "v": "b"}


def test_a_partition_that_says_less_is_met_in_the_log(followed: World) -> None:
    """It was made and mended before anybody looks at it."""
    link = followed.link
    link.execute("CREATE TABLE t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)")
    link.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    run = followed.following(FIRST)
    run.until(lambda s: s.tables[0].state == "cut", "its cut")
    with link.transaction():
        link.execute("CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10)")
        link.execute("INSERT INTO t VALUES (1, 'a')")
        link.execute("UPDATE t SET v = 'b'")
        link.execute("ALTER TABLE t1 REPLICA IDENTITY FULL")
    followed.durable(run)
    run.until(lambda s: s.tables[0].state == "deferred", "its deferral")
    assert "had another replica identity" in run.problem(1)


X = "CREATE TABLE {t}x PARTITION OF {t} FOR VALUES FROM (20) TO (30)"
LIKE = "CREATE TABLE {t}x (LIKE {t} INCLUDING ALL)"
ATTACH = "ALTER TABLE {t} ATTACH PARTITION {t}x FOR VALUES FROM (20) TO (30)"
ROW = "INSERT INTO {t} VALUES (21, 'x')"
GONE, FILLED = "dropped or detached", "attached as a partition"
REWRITTEN = "truncated or rewritten"
WITHIN = "by one transaction"
DETACH = "ALTER TABLE {t} DETACH PARTITION {t}x"
# Each text is a transaction.
PARTS = [
    (["DROP TABLE {t}1"], GONE),
    (["ALTER TABLE {t} DETACH PARTITION {t}1"], GONE),
    (
        [
            "ALTER TABLE {t} DETACH PARTITION {t}1; DELETE FROM {t}1",
            "ALTER TABLE {t} ATTACH PARTITION {t}1 FOR VALUES FROM (0) TO (10)",
        ],
        GONE,
    ),
    ([X, ROW, "DROP TABLE {t}x"], GONE),
    ([LIKE, "INSERT INTO {t}x VALUES (21, 'x')", ATTACH], FILLED),
    ([LIKE + "; INSERT INTO {t}x VALUES (21, 'x'); " + ATTACH], FILLED),
    (
        [
            LIKE + " PARTITION BY RANGE (id);"
            " CREATE TABLE {t}y PARTITION OF {t}x DEFAULT;"
            " INSERT INTO {t}x VALUES (21, 'x'); ALTER TABLE {t}x RENAME TO {t}z;"
            " ALTER TABLE {t}z RENAME TO {t}x; " + ATTACH,
        ],
        FILLED,
    ),
    ([LIKE + "; " + ATTACH, ROW.replace("21", "1")], ""),
    (["TRUNCATE {t}1"], REWRITTEN),
    (["TRUNCATE {t}1, {t}2"], REWRITTEN),
    (["TRUNCATE {t}", "TRUNCATE {t}1, {t}2"], REWRITTEN),
    ([X, ROW, "TRUNCATE {t}x"], REWRITTEN),
    (["TRUNCATE {t}1", "TRUNCATE {t}", X, ROW], ""),
    ([X, "TRUNCATE {t}", "VACUUM {t}; ANALYZE {t}"], ""),
    # PostgreSQL empties the file that the same transaction made, which no catalog shows
    ([X + "; " + ROW + "; TRUNCATE {t}x"], WITHIN),
    ([X + "; " + ROW + "; TRUNCATE {t}x; " + ROW.replace("21", "22")], WITHIN),
    ([f"{X}; {ROW}; {DETACH}; TRUNCATE {{t}}x; {ATTACH}"], WITHIN),
    (
        [
            "BEGIN; SAVEPOINT a; "
            + X
            + "; "
            + ROW
            + "; RELEASE a; TRUNCATE {t}x; COMMIT"
        ],
        WITHIN,
    ),
    (["TRUNCATE {t}; INSERT INTO {t} VALUES (3, 'c'); TRUNCATE {t}1"], WITHIN),
    (["TRUNCATE {t}; INSERT INTO {t} VALUES (3, 'c'), (12, 'd')"], ""),
    ([X + "; " + ROW, ROW.replace("21", "22")], ""),
    ([X, ROW, "UPDATE {t} SET v = 'y'"], ""),
]


@pytest.mark.long
def test_partitions_that_come_and_go_with_their_rows_are_not_in_the_log(
    followed: World,
) -> None:
    """By its root PostgreSQL sends no TRUNCATE of one, and nothing else of these."""
    link = followed.link
    names = {number: f"t{number}_" for number in range(10, 10 + len(PARTS))}
    wanted = [FollowTable(table(n, t), load="first") for n, t in names.items()]
    for t in names.values():
        link.execute(
            f"CREATE TABLE {t} (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);"
            f" CREATE TABLE {t}1 PARTITION OF {t} FOR VALUES FROM (0) TO (10);"
            f" CREATE TABLE {t}2 PARTITION OF {t} FOR VALUES FROM (10) TO (20)"
        )
    run = followed.following(*wanted)
    run.until(lambda s: {one.state for one in s.tables[:-1]} == {"cut"}, "their cuts")
    for t, (statements, _) in zip(names.values(), PARTS, strict=True):
        link.execute(f"INSERT INTO {t} VALUES (2, 'a'), (11, 'b')")
        for statement in statements:
            for one in statement.split("; ") if "VACUUM" in statement else [statement]:
                link.execute(one.format(t=t))
    why = dict(zip(names, (words for _, words in PARTS), strict=True))
    until_deferred(followed, run, wanted, why)


@pytest.mark.parametrize("kind", first_then_long("UNLOGGED TABLE", "FOREIGN TABLE"))
def test_rows_of_a_partition_may_be_in_no_log(followed: World, kind: str) -> None:
    link = followed.link
    link.execute("CREATE TABLE t (id int NOT NULL, v text) PARTITION BY RANGE (id)")
    link.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    run = followed.following(FIRST)
    run.until(lambda s: s.tables[0].state == "cut", "its cut")
    link.execute(
        "CREATE FOREIGN DATA WRAPPER far; CREATE SERVER there FOREIGN DATA WRAPPER far;"
        f" CREATE {kind} tx PARTITION OF t FOR VALUES FROM (0) TO (9)"
        f" {'SERVER there' if 'FOREIGN' in kind else ''}"
    )
    again = replace(FIRST, load="second")
    for wanted in (FIRST, again):
        run.want(wanted)
        run.until(lambda s: s.tables[0].state == "deferred", "its deferral")
        assert "UNLOGGED or a foreign table" in run.problem(1)
    link.execute(f"DROP {kind.replace('UNLOGGED ', '')} tx")
    run.want(again)
    run.until(lambda s: s.tables[0].state == "cut", "the cut of its resync")


@pytest.mark.long
def test_partitions_that_nobody_looked_at_while_they_lived(followed: World) -> None:
    """The log has their rows only; and who takes over knows what was read before."""
    link = followed.link
    link.execute("CREATE TABLE t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)")
    link.execute("CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10)")
    run = followed.following(FIRST)
    run.until(lambda s: s.tables[0].state == "cut", "its cut")
    link.execute("INSERT INTO t VALUES (1, 'a')")
    link.execute("TRUNCATE t")
    link.execute(X.format(t="t"))
    link.execute("INSERT INTO t VALUES (21, 'x')")
    followed.durable(run)
    run.kill()
    run = followed.following(FIRST)
    for _ in range(2):
        run.want(FIRST)
        followed.durable(run)
    assert run.problem(1) == ""
    run.kill()
    link.execute("CREATE TABLE y PARTITION OF t FOR VALUES FROM (30) TO (40)")
    link.execute("INSERT INTO t VALUES (31, 'y')")
    link.execute("DROP TABLE y")
    run = followed.following(FIRST)
    followed.durable(run)
    run.want(FIRST)
    run.until(lambda s: s.tables[0].state == "deferred", "its deferral")
    assert "dropped or detached" in run.problem(1)


COLUMNS = {"id": "integer as int", "v": "text as string", "w": "text as string"}
OTHER_KEY = "was dropped or created again"
USING = "every row was rewritten"
FULL = "ALTER TABLE {t} REPLICA IDENTITY FULL"
NO_KEY = "ALTER TABLE {t} DROP CONSTRAINT {t}_pkey"
KEY = "ALTER TABLE {t} ADD PRIMARY KEY (id)"
SWAP = "UPDATE {t} SET id = 3 - id"
NAMES = (
    "ALTER TABLE {t} RENAME v TO x; ALTER TABLE {t} RENAME w TO v;"
    " ALTER TABLE {t} RENAME x TO w"
)
OTHER_NAME = "ALTER TABLE {t} RENAME TO {t}z"
OWN_NAME = "ALTER TABLE {t}z RENAME TO {t}"
PUT = "INSERT INTO {t}z VALUES (3, 'x')"
AWAY = "ALTER TABLE {t} RENAME w TO x; ALTER TABLE {t} ADD w text"
BACK = "ALTER TABLE {t} DROP w; ALTER TABLE {t} RENAME x TO w"
# What the log does not show, each text a transaction.
ALTERED = [
    ([f"{NO_KEY}; {SWAP}; {KEY}"], OTHER_KEY),
    ([NO_KEY, "INSERT INTO {t} VALUES (1, 'c')"], OTHER_KEY),
    ([f"{NO_KEY}; {KEY} DEFERRABLE", SWAP], "DEFERRABLE"),
    (["ALTER TABLE {t} ALTER v TYPE text USING upper(v)"], USING),
    ([f"{NAMES}; INSERT INTO {{t}} VALUES (3, 'v', 'w'); {NAMES}"], "each other's"),
    ([f"{AWAY}; INSERT INTO {{t}} VALUES (3, 'v', 'x', 'w'); {BACK}"], "each other's"),
    (
        ["ALTER TABLE {t} DROP v", AWAY, "INSERT INTO {t} VALUES (3, 'x', 'w')", BACK],
        "no column v any more",
    ),
    (
        [
            "ALTER TABLE {t} RENAME w TO x",
            "UPDATE {t} SET v = 'u'",
            "ALTER TABLE {t} RENAME x TO w",
        ],
        "no column w any more",
    ),
    # of which no row came under its own name before
    ([f"{OTHER_NAME}; DELETE FROM {{t}}z; {OWN_NAME}"], "was renamed to"),
    ([f"TRUNCATE {{t}}; {OTHER_NAME}; {PUT}; {OWN_NAME}"], "was renamed to"),
    ([f"{NO_KEY}; ALTER TABLE {{t}} ALTER id TYPE bigint; {SWAP}; {KEY}"], OTHER_KEY),
    (
        [f"{NO_KEY}; ALTER TABLE {{t}} ALTER id SET STATISTICS 7; {SWAP}; {KEY}"],
        OTHER_KEY,
    ),
    # neither key nor values are others by these
    (["REINDEX INDEX CONCURRENTLY {t}_pkey"], ""),
    (["ALTER TABLE {t} ALTER id TYPE bigint"], ""),
    (["ALTER TABLE {t} ALTER v SET NOT NULL", "VACUUM FULL {t}"], USING),
    (["VACUUM FULL {t}", "TRUNCATE {t}", "ALTER TABLE {t} ADD n int"], ""),
]


# Of tables that are published as all are, which PostgreSQL lets be without a log.
UNLOGGED, LOGGED = "ALTER TABLE {t} SET UNLOGGED", "ALTER TABLE {t} SET LOGGED"
ANEW = "SET UNLOGGED and SET LOGGED"
UNSENT = [
    ([UNLOGGED, "INSERT INTO {t} VALUES (3, 'x', 'y')", LOGGED], ANEW),
    ([UNLOGGED, "DELETE FROM {t}", LOGGED], ANEW),
    (["TRUNCATE {t}", UNLOGGED, "INSERT INTO {t} VALUES (3, 'x')", LOGGED], ANEW),
    ([UNLOGGED, LOGGED, "INSERT INTO {t} VALUES (4, 'z')", "VACUUM FULL {t}"], ANEW),
    (["VACUUM FULL {t}"], ""),
    (["INSERT INTO {t} VALUES (5, 'z')", "VACUUM FULL {t}", "TRUNCATE {t}"], ""),
    (["ALTER TABLE {t} ALTER id TYPE bigint"], ""),
]


@pytest.mark.parametrize(
    ("cases", "publication"),
    first_then_long(
        (ALTERED, ""), (UNSENT, "CREATE PUBLICATION theirs FOR ALL TABLES")
    ),
)
def test_keys_and_values_that_the_log_does_not_show(
    followed: World, cases: list[tuple[list[str], str]], publication: str
) -> None:
    link = followed.link
    names = {number: f"t{number}_" for number in range(10, 10 + len(cases))}
    wanted = [
        FollowTable(table(n, t, columns=COLUMNS), load="first")
        for n, t in names.items()
    ]
    for t in names.values():
        # one that was dropped before does not count
        link.execute(f"CREATE TABLE {t} (o int, id int PRIMARY KEY, v text, w text)")
        link.execute(f"ALTER TABLE {t} DROP o")
        link.execute(FULL.format(t=t))
        link.execute(f"INSERT INTO {t} VALUES (1, 'a'), (2, 'b')")
    if publication:
        link.execute(publication)
    run = followed.following(*wanted)
    run.until(lambda s: {one.state for one in s.tables[:-1]} == {"cut"}, "their cuts")
    followed.durable(run)
    for t, (statements, _) in zip(names.values(), cases, strict=True):
        for statement in statements:
            link.execute(statement.format(t=t))
    why = dict(zip(names, (words for _, words in cases), strict=True))
    until_deferred(followed, run, wanted, why)


@pytest.mark.long
def test_a_unique_index_of_no_constraint_that_was_made_anew(followed: World) -> None:
    """Beside itself it was, or a moment after it was dropped: both look alike."""
    link, wanted = followed.link, FollowTable(table(30, "t30_"), load="first")
    link.execute("CREATE TABLE t30_ (id int NOT NULL, v text, w text)")
    link.execute("CREATE UNIQUE INDEX t30_key ON t30_ (id)")
    link.execute("ALTER TABLE t30_ REPLICA IDENTITY USING INDEX t30_key")
    run = followed.following(wanted)
    run.until(lambda s: {one.state for one in s.tables[:-1]} == {"cut"}, "its cut")
    followed.durable(run)
    link.execute("REINDEX INDEX CONCURRENTLY t30_key")
    run.want(wanted)
    followed.durable(run)
    run.until(lambda s: s.tables[0].state == "deferred", "its deferral")
    assert OTHER_KEY in run.problem(30)


def test_a_table_that_somebody_locks_stops_no_other(followed: World) -> None:
    """For as long as an ALTER TABLE or VACUUM FULL takes, of a partition, too."""
    link, second = followed.link, FollowTable(table(2, "u"), load="first")
    link.execute(T)
    link.execute("CREATE TABLE u (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)")
    link.execute("CREATE TABLE u_0 PARTITION OF u FOR VALUES FROM (0) TO (10)")
    run = followed.following(FIRST, second)
    run.until(lambda s: s.tables[1].state == "cut", "the other's cut")
    with psycopg.connect(followed.dsn) as holder:
        holder.execute("LOCK TABLE u IN ACCESS EXCLUSIVE MODE")
        followed.following(FIRST, second)
        link.execute("INSERT INTO t VALUES (1, 'a')")
        wait_for(followed.changes, "the change of the other table")
    assert [one.values["id"] for one in followed.changes(1)] == [1]
