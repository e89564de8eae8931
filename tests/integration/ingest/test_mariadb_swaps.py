"""Tables of MariaDB in whose place a tool for schema changes puts others, filled from
them, while their log is followed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from ingest.contract.following import FollowTable
from ingest.contract.source_positions import MariaDbLog
from tests.integration.ingest.mariadb_following import (
    COLUMNS,
    MariaWorld,
    maria_table,
    maria_world,
)
from tests.long_tests import first_then_long
from tests.mariadb import MariaDbServer
from tests.waiting import LIMIT_SECONDS

T = "CREATE TABLE t (id int PRIMARY KEY, v varchar(20) DEFAULT 'x', n int)"
N = {**COLUMNS, "v": "varchar(20) as string", "n": "int(11) as int"}
EXTRA = {"extra": "int(11) as int"}
FIRST = FollowTable(maria_table(1, columns=N), load="first")
ADDS = "ADD COLUMN extra INT DEFAULT 5, MODIFY COLUMN `v` varchar(40), engine=InnoDB"


@pytest.fixture
def maria(mariadb_server: MariaDbServer, tmp_path: Path) -> Iterator[MariaWorld]:
    with maria_world(mariadb_server, tmp_path) as world:
        world.run(T)
        yield world


class Ghost:
    """What gh-ost sends. It applies its log of the table up to a lock of it, under
    which it asks for the swap."""

    copy, old = "_t_gho", "_t_del"

    def __init__(self, maria: MariaWorld, alter: str = ADDS) -> None:
        self.maria, self.alter = maria, alter

    def begin(self) -> None:
        self.maria.run(
            f"drop /* gh-ost */ table if exists `{self.maria.dsn}`.`_t_gho`",
            "create /* gh-ost */ table `_t_ghc` (id int auto_increment primary key)",
            f"create /* gh-ost */ table `{self.maria.dsn}`.`_t_gho` like t",
            f"alter /* gh-ost */ table `{self.maria.dsn}`.`_t_gho` {self.alter}",
        )

    def fill(self) -> None:
        self.maria.run(
            "insert /* gh-ost */ ignore into _t_gho (id, v, n)"
            " (select id, v, n from t force index (`PRIMARY`) lock in share mode)"
        )

    def swap(self) -> None:
        self.maria.run(
            "replace /* gh-ost */ into _t_gho (id, v, n) select id, v, n from t",
            "delete /* gh-ost */ from _t_gho where id not in (select id from t)",
            "create /* gh-ost */ table _t_del (id int auto_increment primary key)"
            " engine=InnoDB comment='ghost-cut-over-sentry'",
            "drop /* gh-ost */ table if exists _t_del",
            f"rename /* gh-ost */ table `{self.maria.dsn}`.`t` to"
            f" `{self.maria.dsn}`.`_t_del`, `{self.maria.dsn}`.`_t_gho` to"
            f" `{self.maria.dsn}`.`t`",
        )

    def end(self) -> None:
        self.maria.run("drop /* gh-ost */ table _t_ghc, _t_del")


class Osc:
    """What pt-online-schema-change sends."""

    copy, old = "_t_new", "_t_old"

    def __init__(self, maria: MariaWorld, alter: str = ADDS) -> None:
        self.maria, self.alter = maria, alter

    def begin(self) -> None:
        base = self.maria.dsn
        with closing(self.maria.server.connect(base)) as link, link.cursor() as cursor:
            cursor.execute(f"SHOW CREATE TABLE `{base}`.`t`")
            made = str(cursor.fetchone()[1])
        triggers = {
            "del": "AFTER DELETE ON {t} FOR EACH ROW"
            " DELETE IGNORE FROM {new} WHERE {new}.`id` <=> OLD.`id`",
            "upd": "AFTER UPDATE ON {t} FOR EACH ROW BEGIN DELETE IGNORE FROM {new}"
            " WHERE !(OLD.`id` <=> NEW.`id`) AND {new}.`id` <=> OLD.`id`; REPLACE INTO"
            " {new} (`id`, `v`, `n`) VALUES (NEW.`id`, NEW.`v`, NEW.`n`); END",
            "ins": "AFTER INSERT ON {t} FOR EACH ROW"
            " REPLACE INTO {new} (`id`, `v`, `n`) VALUES (NEW.`id`, NEW.`v`, NEW.`n`)",
        }
        names = {"t": f"`{base}`.`t`", "new": f"`{base}`.`_t_new`"}
        self.maria.run(
            made.replace("CREATE TABLE `t`", f"CREATE TABLE `{base}`.`_t_new`"),
            f"ALTER TABLE `{base}`.`_t_new` {self.alter}",
            *(
                f"CREATE TRIGGER `pt_osc_{base}_t_{name}` {text.format(**names)}"
                for name, text in triggers.items()
            ),
        )

    def fill(self) -> None:
        self.maria.run(
            f"INSERT LOW_PRIORITY IGNORE INTO `{self.maria.dsn}`.`_t_new`"
            f" (`id`, `v`, `n`) SELECT `id`, `v`, `n` FROM `{self.maria.dsn}`.`t`"
            " LOCK IN SHARE MODE /*pt-online-schema-change 7 copy table*/"
        )

    def swap(self) -> None:
        base = self.maria.dsn
        self.maria.run(
            f"ANALYZE TABLE `{base}`.`_t_new` /* pt-online-schema-change */",
            f"RENAME TABLE `{base}`.`t` TO `{base}`.`_t_old`, `{base}`.`_t_new` TO"
            f" `{base}`.`t`",
        )

    def end(self) -> None:
        base = self.maria.dsn
        self.maria.run(
            f"DROP TABLE IF EXISTS `{base}`.`_t_old`",
            *(
                f"DROP TRIGGER IF EXISTS `{base}`.`pt_osc_{base}_t_{name}`"
                for name in ("del", "upd", "ins")
            ),
        )


Tool = type[Ghost] | type[Osc]


class Writer:
    """Changes rows all the time by a session of its own, unless it is held up."""

    def __init__(self, maria: MariaWorld) -> None:
        self._maria, self._free, self._over = maria, Event(), Event()
        self._idle, self._thread = Event(), Thread(target=self._run)
        self.written = 0
        self._thread.start()
        self.go_on()

    def hold(self) -> None:
        self._idle.clear()
        self._free.clear()
        assert self._idle.wait(LIMIT_SECONDS)

    def go_on(self) -> None:
        self._free.set()

    def end(self) -> None:
        self._over.set()
        self._free.set()
        self._thread.join()

    def _run(self) -> None:
        with closing(self._maria.server.connect(self._maria.dsn)) as link:
            while not self._over.is_set():
                if not self._free.is_set():
                    self._idle.set()
                    self._free.wait()
                self._write(link.cursor(), self.written)
                self.written += 1
                self._over.wait(0.002)

    def _write(self, cursor: Any, n: int) -> None:
        statements = (
            f"INSERT INTO t (id, v, n) VALUES ({n}, 'a', {n})",
            f"UPDATE t SET n = n + 1 WHERE id % 7 = {n % 7}",
            f"UPDATE t SET id = id + 100000 WHERE id = {n - 5}",
            f"DELETE FROM t WHERE id IN ({n - 9}, {n + 99990})",
        )
        cursor.execute(statements[n % 4])


def rows_of(maria: MariaWorld) -> dict[int, dict[str, Any]]:
    with closing(maria.server.connect(maria.dsn)) as link, link.cursor() as cursor:
        cursor.execute("SELECT id, v, n, extra FROM t")
        names = ("id", "v", "n", "extra")
        return {row[0]: dict(zip(names, row, strict=True)) for row in cursor.fetchall()}


def folded(maria: MariaWorld) -> dict[int, dict[str, Any]]:
    """As a lake has them whose plan has the new column."""
    found: dict[int, dict[str, Any]] = {}
    for change in maria.changes():
        if change.op == "delete":
            found.pop(change.values["id"], None)
        else:
            found[change.values["id"]] = {"extra": 5, **change.values}
    return found


@pytest.mark.parametrize("tool", first_then_long(Ghost, Osc))
def test_a_swap_is_followed_while_rows_change_and_readers_die(
    maria: MariaWorld, tool: Tool
) -> None:
    run = maria.following(FIRST)
    maria.durable(run)
    does, writer = tool(maria), Writer(maria)
    try:
        does.begin()
        maria.durable(run)
        run.kill()
        does.fill()
        run = maria.following(FIRST)
        maria.durable(run)
        if tool is Ghost:
            writer.hold()
        run.kill()
        does.swap()
        writer.go_on()
        does.end()
        run = maria.following(FIRST)
        run.until(lambda s: s.tables[0].replaced, "the swap")
        maria.durable(run)
    finally:
        writer.end()
    maria.run("UPDATE t SET extra = 6 ORDER BY id LIMIT 1")
    maria.durable(run)
    assert (run.problem(1), maria.reasons()) == ("", [])
    assert writer.written > 20
    assert folded(maria) == rows_of(maria)
    before = run.state.tables[0].replaced
    run.kill()
    run = maria.following(FIRST)
    assert before
    assert before.by == {Ghost: "gh-ost", Osc: "pt-online-schema-change"}[tool]
    assert MariaDbLog.decode(before.at).offset
    run.until(lambda s: s.tables[0].replaced == before, "that it is not forgotten")
    plan = replace(FIRST.table, columns=maria_table(1, columns=N | EXTRA).columns)
    older = tuple(
        replace(c, older="5" if c.name == "extra" else None) for c in plan.columns
    )
    wanted = maria.of(replace(FIRST, table=replace(plan, columns=older)))
    run.want(wanted)
    run.until(lambda s: s.tables[0].new_columns == (), "the plan")
    maria.durable(run)
    assert run.problem(1) == ""
    run.want(replace(wanted, load="second"))
    run.until(lambda s: s.tables[0].replaced is None, "that a load needs no look")


FILL = "INSERT IGNORE INTO {new} (id, v, n) SELECT id, v, n FROM {t}"
SWAP = "RENAME TABLE {t} TO _{t}_old, {new} TO {t}"
# Names of tables; what was done before the swap, and words of the problem.
ANOTHER = "was replaced at the source by"
REFUSED = {
    # rows of before are put aside, and the table begins anew
    "by_hand": (["CREATE TABLE {new} LIKE {t}"], ANOTHER),
    "other_made": (
        ["CREATE TABLE {new} (id int PRIMARY KEY, v varchar(20), n int)", FILL],
        ANOTHER,
    ),
    "other_like": (["CREATE TABLE {new} LIKE t", FILL], ANOTHER),
    "filled_first": ([FILL, "ALTER TABLE {new} ADD m int DEFAULT 1"], ANOTHER),
    "unique": (["ALTER TABLE {new} ADD UNIQUE (n)", FILL], ANOTHER),
    "dropped": (["ALTER TABLE {new} DROP n, ADD n int", FILL], ANOTHER),
    "renamed": (["ALTER TABLE {new} CHANGE n m int, ADD n int", FILL], ANOTHER),
    "emptied": ([FILL, "TRUNCATE {new}", FILL, "TRUNCATE {t}"], ANOTHER),
    "altered": ([FILL, "ALTER TABLE {t} ADD m int DEFAULT 1"], ANOTHER),
    "away": ([FILL, "RENAME TABLE {new} TO u, u TO {new}"], ANOTHER),
    "filled": (["ALTER TABLE {new} MODIFY n int NOT NULL", FILL], "NOT NULL now"),
    "narrower": (["ALTER TABLE {new} MODIFY v varchar(5)", FILL], "varchar(20) utf8mb4 and is varchar(5)"),
    "text": (["ALTER TABLE {new} MODIFY n varchar(20)", FILL], "n was int(11) and is varchar(20)"),
}  # fmt: skip


def test_any_other_swap_defers_the_table_alone(maria: MariaWorld) -> None:
    names = [f"s_{name}" for name in REFUSED]
    maria.run(*(T.replace(" t ", f" {name} ") for name in names))
    tables = [
        maria.of(FollowTable(maria_table(n, name, columns=N), load="first"))
        for n, name in enumerate(names, start=10)
    ]
    run = maria.following(FIRST, *tables)
    maria.durable(run)
    for name, (statements, _) in zip(names, REFUSED.values(), strict=True):
        is_own = statements[0].startswith("CREATE")
        copy = [] if is_own else ["CREATE TABLE {new} LIKE {t}"]
        filled = ["INSERT INTO {t} VALUES (1, 'a', 1)", *copy, *statements]
        maria.run(*(one.format(t=name, new=f"_{name}_new") for one in (*filled, SWAP)))
    maria.run("INSERT INTO t VALUES (1, 'a', 1)")
    maria.durable(run)
    for one, (name, (_, words)) in zip(tables, REFUSED.items(), strict=True):
        assert words in run.problem(one.table.table_id), name
        assert ("deferred", one.table.table_id) in maria.controls(), name
    assert [one.values["id"] for one in maria.changes()] == [1]
    assert run.state.tables[0].replaced is None


def test_a_copy_of_which_the_beginning_was_not_seen_is_not_known(
    maria: MariaWorld,
) -> None:
    does = Osc(maria)
    does.begin()
    run = maria.following(FIRST)
    does.fill()
    maria.run("INSERT INTO t VALUES (1, 'a', 1)")
    does.swap()
    does.end()
    run.until(lambda s: s.tables[0].state == "deferred", "its deferral")
    assert f"was replaced at the source by {maria.dsn}._t_new" in run.problem(1)
    run.want(replace(maria.of(FIRST), load="second"))
    run.until(lambda s: s.tables[0].state == "cut", "its load")
    maria.run("UPDATE t SET v = 'c' WHERE id = 1")
    maria.durable(run)
    newest = {"id": 1, "v": "c", "n": 1, "extra": 5}
    assert maria.changes()[-1].values == newest
    assert run.problem(1) == ""


def test_a_tool_that_begins_again_is_known_by_its_second_copy(
    maria: MariaWorld,
) -> None:
    run = maria.following(FIRST)
    maria.run("INSERT INTO t VALUES (1, 'a', 1)")
    for _ in range(2):
        Ghost(maria).begin()
        Ghost(maria).fill()
        maria.run("DROP TABLE _t_ghc")
    Ghost(maria).swap()
    run.until(lambda s: s.tables[0].replaced, "the swap")
    maria.durable(run)
    assert (run.problem(1), maria.reasons()) == ("", [])
