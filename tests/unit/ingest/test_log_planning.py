"""Plans of tables that are followed by their source's log."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from catalog.schema.source_log import Lack, TableLog
from ingest.planning.defaults import PlanDefaults, plan_with_defaults
from ingest.planning.facts import Choices, Conditions, TableFacts, Target
from ingest.planning.log import published_at_once
from ingest.planning.plan import ApplyChanges, FollowLog, plan_from_json, plan_to_json
from tests.unit.ingest.test_planning import ID, UPDATED, column, facts, plan

NAME = column("name", "string")
FULL = 'ALTER TABLE "public"."orders" REPLICA IDENTITY FULL;'


def test_a_table_with_a_key_is_followed_without_a_cursor() -> None:
    found = plan(facts(ID, NAME), capture="log")
    assert found.blocked == ""
    assert found.proposals["cursor"].value is None
    assert found.step(ApplyChanges) is None
    step = found.step(FollowLog)
    assert "deletes" in step.summary
    assert plan_from_json(json.loads(json.dumps(plan_to_json(found)))) == found


@pytest.mark.parametrize(
    ("table", "choices", "reason"),
    [
        (facts(NAME), Choices(), "('record_key')"),
        (facts(ID, NAME), Choices(record_key="row_hash"), "whole-row hash"),
        (facts(ID, UPDATED), Choices(updates="partial"), "partial updates"),
        (facts(ID, relation="view"), Choices(), "is a view"),
    ],
)
def test_what_the_log_does_not_carry_over_is_refused(table, choices, reason) -> None:
    found = plan(table, choices, capture="log")
    assert reason in found.blocked
    assert found.steps == ()


@pytest.mark.parametrize(
    ("table", "choices"),
    [
        (facts(ID, relation="view"), Choices()),
        (facts(ID, traits=("unlogged",)), Choices()),
        (facts(ID, UPDATED), Choices(updates="partial")),
    ],
)
def test_of_one_of_many_no_way_out_is_named_that_is_none(table, choices) -> None:
    """Syncs by a timestamp read one table."""
    alone = plan(table, choices, capture="log").blocked
    assert "capture 'timestamp'" in alone
    sharded = plan(table, choices, capture="log", is_sharded=True).blocked
    assert sharded
    assert "timestamp" not in sharded


ON_MARIADB = TableLog(is_full=True, identity=("id", "v"), is_published=True)


def test_a_table_of_mariadb_is_followed_as_it_is() -> None:
    assert not plan(
        facts(ID, source_kind="mariadb", log=ON_MARIADB), capture="log"
    ).blocked


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (
            {"log": dataclasses.replace(ON_MARIADB, unfit="its engine is Aria")},
            "its engine is Aria",
        ),
        ({"traits": frozenset({"versioned"})}, "former versions"),
        (
            {"log_lacks": (Lack("binlog_format is 'MIXED'", "SET GLOBAL x"),)},
            "SET GLOBAL",
        ),
    ],
)
def test_what_the_log_of_mariadb_does_not_say_exactly_is_refused(
    more: dict[str, Any], reason: str
) -> None:
    table = facts(ID, **{"source_kind": "mariadb", "log": ON_MARIADB, **more})
    assert reason in plan(table, capture="log").blocked


KEYED = TableLog(identity=("id",), may_publish=True)
TARGET = Target("shop", "orders", "/lake/shop/orders")
RIGHT = Lack(
    "the datasource's user may not receive the log", "ALTER ROLE x REPLICATION;"
)


def open_plan(table: TableFacts, choices: Choices | None = None, **more: Any) -> Any:
    """Nobody said how."""
    defaults = PlanDefaults(**more)
    return plan_with_defaults(
        table,
        choices or Choices(),
        defaults,
        TARGET,
        lambda way: Conditions(capture=way),
        None,
    )


@pytest.mark.parametrize(
    ("log", "choices", "more", "told"),
    [
        (TableLog(may_publish=True), Choices(), {}, ["no replica identity", FULL]),
        (
            TableLog(identity=("name",), may_publish=True),
            Choices(),
            {},
            ["does not have id", FULL],
        ),
        (KEYED, Choices(partition_by=("name",)), {}, ["partitioned by name", FULL]),
        (
            TableLog(is_full=True, may_publish=True),
            Choices(partition_by=("name",)),
            {},
            [],
        ),
        (
            dataclasses.replace(KEYED, left_out=("name",)),
            Choices(),
            {},
            ["name out by"],
        ),
        (
            dataclasses.replace(KEYED, left_out=("name",)),
            Choices(exclude_columns=("name",)),
            {},
            [],
        ),
        (
            dataclasses.replace(KEYED, unread=("name",)),
            Choices(),
            {},
            ["texts of name", "utf8mb4"],
        ),
        (TableLog(identity=("id",)), Choices(), {}, ['FOR TABLE "public"."orders"']),
        (TableLog(identity=("id",), is_published=True), Choices(), {}, []),
        (KEYED, Choices(), {"traits": frozenset({"unlogged"})}, ["UNLOGGED"]),
        (KEYED, Choices(), {"traits": frozenset({"children"})}, ["inheritance"]),
        (KEYED, Choices(), {"traits": frozenset({"foreign"})}, ["another server"]),
        (KEYED, Choices(), {"relation": "partitioned table"}, []),
        (
            TableLog(is_full=True, may_publish=True, lesser_parts=("p0", "p1")),
            Choices(),
            {"relation": "partitioned table"},
            [
                "its partition p0 (and 1 more)",
                'pg_partition_tree(\'"public"."orders"\')',
            ],
        ),
        (KEYED, Choices(), {"log_lacks": (RIGHT,)}, [RIGHT.reason, RIGHT.statement]),
    ],
)
def test_what_the_log_lacks_is_told_with_the_statement_that_mends_it(
    log: TableLog, choices: Choices, more: Any, told: list[str]
) -> None:
    table = facts(ID, NAME, UPDATED, log=log, **more)
    asked = plan(table, choices, capture="log")
    assert bool(asked.blocked) == bool(told)
    assert [part for part in told if part not in asked.blocked] == []
    capture, found = open_plan(table, choices)
    why = found.proposals["capture"]
    assert (capture, why.value, why.is_chosen) == (
        ("timestamp" if told else "log"),
        capture,
        False,
    )
    assert [part for part in told if part not in why.reason] == []
    assert bool(found.blocked) == ("foreign" in table.traits)


def named(name: str, log: TableLog, **more: Any) -> TableFacts:
    return dataclasses.replace(facts(ID, NAME, UPDATED, log=log, **more), name=name)


UNSENT = TableLog(identity=("id",))


@pytest.mark.parametrize("capture", ["log", None])
def test_one_publication_is_proposed_for_all_tables_of_a_plan(capture: Any) -> None:
    tables = [
        (named("sent", KEYED),),
        (named("a", UNSENT),),
        (named("odd", UNSENT, traits=frozenset({"unlogged"})),),
        (named("b", UNSENT), named("c", KEYED), named("d", UNSENT)),
    ]
    plans = [open_plan(first, Choices(capture=capture))[1] for first, *_ in tables]
    at_once = published_at_once(plans, tables)
    texts = [one.blocked or one.proposals["capture"].reason for one in at_once]
    assert [text.count("CREATE PUBLICATION") for text in texts] == [0, 1, 0, 0]
    every = 'FOR TABLE "public"."a", "public"."b", "public"."d" WITH'
    assert every in texts[1]
    assert "the statement shown for public.a names this table" in texts[3]
    assert [at_once[i] for i in (0, 2)] == [plans[i] for i in (0, 2)]


@pytest.mark.parametrize(
    ("choices", "defaults"),
    [
        (Choices(cursor="updated_at"), {}),
        (Choices(), {"cursors": ("updated_at",)}),
        (Choices(updates="partial"), {}),
        (Choices(schedule={"every_seconds": 5}), {}),
    ],
)
def test_what_is_said_of_syncs_makes_syncs(choices: Choices, defaults: Any) -> None:
    table = facts(ID, NAME, UPDATED, log=KEYED)
    assert open_plan(table, choices, **defaults)[0] == "timestamp"
    assert open_plan(table)[0] == "log"


def test_a_table_that_can_have_neither_is_told_both_ways_out() -> None:
    table = facts(ID, NAME, log=TableLog(may_publish=True))
    capture, found = open_plan(table)
    assert capture == "timestamp"
    assert "'cursor'" in found.blocked
    assert FULL in found.blocked
    assert open_plan(table, load_once=True)[0] == "snapshot"
    _, found = open_plan(facts(ID, NAME))
    assert "discover" in found.proposals["capture"].reason
    assert "log" not in found.blocked
