"""What changed columns mean for a plan, as a table of cases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from catalog.schema.source_log import TableLog
from catalog.schema.types import Column, TableSchema
from ingest.planning.drift import NO_DRIFT, SchemaPolicy, evolved, judge_drift
from ingest.planning.facts import Choices, Conditions, TableFacts, Target
from ingest.planning.plan import CreateTable, TablePlan
from ingest.planning.propose import propose_table


def column(
    name: str, source_type: str, kind: str, *, nullable: bool = True, key: int = 0
) -> Column:
    return Column(name, name, source_type, kind, nullable=nullable, key=key)


ID = column("id", "bigint", "bigint", nullable=False, key=1)
NAME = column("name", "character varying(10)", "string")
COUNT = column("count", "integer", "int")
PRICE = column("price", "numeric(10,2)", "decimal(10,2)")
WEIGHT = column("weight", "real", "float")
AT = column("at", "timestamp with time zone", "timestamp", nullable=False)
COLUMNS = (ID, NAME, COUNT, PRICE, WEIGHT, AT)
NEW = column("new", "text", "string")


def planned(capture: str = "timestamp", **choices: object) -> TablePlan:
    facts = TableFacts(
        "public",
        "orders",
        TableSchema(COLUMNS),
        estimated_rows=10,
        estimated_bytes=1000,
        fingerprint="f",
        source_kind="postgresql",
    )
    return propose_table(
        facts,
        Choices(cursor="at" if capture == "timestamp" else None, **choices),  # type: ignore[arg-type]
        Target("shop", "orders", "/lake/shop/orders"),
        Conditions(capture=capture),  # type: ignore[arg-type]
    )


def test_a_column_that_is_carried_as_text_has_not_changed() -> None:
    plan = planned(as_text=("price",))
    assert judge_drift(plan, now(), "follow") == NO_DRIFT
    wider = judge_drift(plan, now(NEW), "follow")
    after = evolved(plan, now(NEW), wider.followed, kind="postgresql")
    create: CreateTable = after.step(CreateTable)
    types = {c.source_name: c.type for c in create.columns}
    assert (types["price"], types["new"]) == ("string", "string")


def now(*new: Column, without: str = "", **changed: Column) -> TableSchema:
    kept = [changed.get(c.name, c) for c in COLUMNS if c.name != without]
    return TableSchema((*kept, *new))


def retyped(old: Column, source_type: str, kind: str | None = None) -> Column:
    lake = old.type if kind is None else kind
    return replace(old, source_type=source_type, type=lake)


def outcome(
    source: TableSchema, policy: SchemaPolicy = "follow", capture: str = "timestamp"
) -> str:
    found = judge_drift(planned(capture), source, policy)
    names = ("followed", "proposed", "blocking", "left_out")
    return " ".join(name for name in names if getattr(found, name))


@pytest.mark.parametrize(
    ("source", "policy", "expected"),
    [
        (now(), "follow", ""),
        (now(NEW), "follow", "followed"),
        (now(NEW), "ask", "proposed"),
        (now(NEW), "ignore", "left_out"),
        # a default makes it NOT NULL there; in the lake old rows are read again
        (now(replace(NEW, nullable=False)), "follow", "followed"),
        (now(column("new", "xml2", "")), "follow", "left_out"),
        (now(name=retyped(NAME, "text")), "ask", "followed"),
        (now(name=retyped(NAME, "json")), "follow", "blocking"),
        (now(count=retyped(COUNT, "bigint", "bigint")), "follow", "followed"),
        (now(count=retyped(COUNT, "bigint", "bigint")), "ask", "blocking"),
        (now(count=retyped(COUNT, "bigint", "bigint")), "ignore", "blocking"),
        (
            now(price=retyped(PRICE, "numeric(14,2)", "decimal(14,2)")),
            "follow",
            "followed",
        ),
        (
            now(price=retyped(PRICE, "numeric(14,4)", "decimal(14,4)")),
            "follow",
            "blocking",
        ),
        (
            now(weight=retyped(WEIGHT, "double precision", "double")),
            "follow",
            "blocking",
        ),
        (now(count=retyped(COUNT, "text", "string")), "follow", "blocking"),
        (now(price=retyped(PRICE, "xml2", "")), "follow", "blocking"),
        (now(id=retyped(ID, "numeric(20,0)", "decimal(20,0)")), "follow", "blocking"),
        (now(without="name"), "follow", "blocking"),
        (now(without="name"), "ignore", "blocking"),
        # a rename is one column less and another more
        (now(NEW, without="name"), "follow", "followed blocking"),
        (now(name=replace(NAME, nullable=False)), "follow", "followed"),
        (now(id=replace(ID, nullable=True)), "follow", "blocking"),
        (now(replace(NEW, key=2, nullable=False)), "follow", "blocking"),
        (now(id=replace(ID, key=0)), "follow", "blocking"),
        (now(at=retyped(AT, "timestamp(3) with time zone")), "follow", "blocking"),
    ],
)
def test_what_becomes_of_a_change(
    source: TableSchema, policy: SchemaPolicy, expected: str
) -> None:
    assert outcome(source, policy) == expected


def test_a_table_that_is_loaded_once_waits_for_a_fresh_copy() -> None:
    found = judge_drift(planned("snapshot"), now(NEW), "follow")
    assert [c.column for c in found.proposed] == ["new"]
    assert found.needs_resync


@pytest.mark.parametrize(
    ("source", "altering"),
    [
        (now(without="name"), "name"),
        (now(name=retyped(NAME, "varchar(1)")), "name"),
        (now(count=retyped(COUNT, "text", "string")), "count"),
        # grown, or of another key: values stay as they are
        (now(count=retyped(COUNT, "bigint", "bigint")), ""),
        (now(weight=retyped(WEIGHT, "double precision", "double")), ""),
        (now(id=replace(ID, key=0)), ""),
        (now(replace(NEW, key=2, nullable=False)), ""),
    ],
)
def test_which_changes_may_have_given_old_rows_other_values(
    source: TableSchema, altering: str
) -> None:
    drift = judge_drift(planned(), source, "ask")
    assert drift.blocking
    assert "".join(change.column for change in drift.altering) == altering


@pytest.mark.parametrize(
    ("source", "needs_resync"),
    [
        (now(NEW), False),
        (now(count=retyped(COUNT, "bigint", "bigint")), False),
        (now(NEW, count=retyped(COUNT, "text", "string")), True),
        (now(without="name"), True),
        (now(weight=retyped(WEIGHT, "double precision", "double")), True),
    ],
)
def test_only_what_a_sync_cannot_bring_needs_a_resync(
    source: TableSchema, needs_resync: bool
) -> None:
    assert judge_drift(planned(), source, "ask").needs_resync is needs_resync


@pytest.mark.parametrize(
    "source",
    [
        now(without="id"),
        now(without="at"),
        now(id=retyped(ID, "text", "string")),
        now(at=retyped(AT, "text", "string")),
    ],
)
def test_what_the_table_stands_on_cannot_be_approved_away(source: TableSchema) -> None:
    found = judge_drift(planned(), source, "follow")
    assert found.blocking
    assert "fixed for its life" in found.impossible


def test_columns_left_out_by_choice_are_no_change() -> None:
    plan = planned(exclude_columns=("name",))
    assert judge_drift(plan, now(), "follow") == NO_DRIFT
    assert judge_drift(plan, now(without="name"), "follow") == NO_DRIFT


def test_an_evolved_plan_has_the_change_and_nothing_else() -> None:
    plan = planned()
    wide = retyped(COUNT, "bigint", "bigint")
    clash = column("Name", "text", "string")
    source = TableSchema((NEW, *now(clash, count=wide).columns))
    found = judge_drift(plan, source, "follow")
    after = evolved(plan, source, found.followed, kind="postgresql")
    before: CreateTable = plan.step(CreateTable)
    create: CreateTable = after.step(CreateTable)
    names = [c.name for c in create.columns]
    # known columns keep place and name, new ones come behind them
    assert names[:6] == [c.name for c in before.columns]
    assert names[6] == "new"
    assert names[7].startswith("name_")
    assert create.columns[2].type == "bigint"
    assert judge_drift(after, source, "follow") == NO_DRIFT
    assert replace(after, steps=()) == replace(plan, steps=())


def test_an_approved_plan_leaves_out_what_is_gone_and_what_has_no_type() -> None:
    plan = planned()
    source = now(price=retyped(PRICE, "xml2", ""), without="name")
    found = judge_drift(plan, source, "follow")
    after = evolved(plan, source, found.to_approve, kind="postgresql")
    names = [c.source_name for c in after.step(CreateTable).columns]
    assert names == ["id", "count", "weight", "at"]
    left = judge_drift(after, source, "follow")
    assert not left.is_open


def test_a_new_key_at_the_source_keeps_the_lakes_own() -> None:
    plan = planned()
    source = now(id=replace(ID, key=0))
    found = judge_drift(plan, source, "follow")
    after = evolved(plan, source, found.to_approve, kind="postgresql")
    assert after.step(CreateTable).record_key == ("id",)
    assert judge_drift(after, source, "follow") == NO_DRIFT


BIG = now(count=retyped(COUNT, "bigint", "bigint"))


@pytest.mark.parametrize(
    ("source", "policy", "verdict", "needs_resync"),
    [
        (now(NEW), "follow", "followed", False),
        (now(NEW), "ask", "proposed", True),
        (now(NEW), "ignore", "left_out", False),
        (now(replace(NEW, name="u", source_name="u")), "follow", "proposed", True),
        (now(replace(NEW, name="x", source_name="x")), "follow", "left_out", False),
        (now(replace(NEW, name="g", source_name="g")), "follow", "left_out", False),
        (BIG, "follow", "followed", False),
        (BIG, "ask", "blocking", False),
        (now(without="name"), "follow", "blocking", True),
        (now(count=retyped(COUNT, "text", "string")), "follow", "blocking", True),
        (now(name=retyped(NAME, "text")), "ask", "followed", False),
    ],
)
def test_a_table_that_follows_its_log_goes_on_where_the_log_tells_all(
    source: TableSchema, policy: SchemaPolicy, verdict: str, *, needs_resync: bool
) -> None:
    log = TableLog(left_out=("g",), tells_older=True, untold=("u",), unread=("x",))
    found = judge_drift(planned("log"), source, policy, log)
    assert [change.column for change in getattr(found, verdict)]
    assert found.needs_resync is needs_resync


def test_a_column_that_a_log_does_not_tell_of_needs_a_load() -> None:
    found = judge_drift(planned("log"), now(NEW), "follow", TableLog())
    assert (len(found.proposed), found.needs_resync) == (1, True)


def test_a_plan_of_a_log_knows_older_values_and_what_is_left_out() -> None:
    log = TableLog(tells_older=True, older={"new": "7", "name": "x"})
    source = now(NEW, column("xml", "xml2", ""))
    plan = planned("log", exclude_columns=("name",))
    assert plan.left_out == ("name",)
    changes = judge_drift(plan, source, "follow", log).followed
    after = evolved(plan, source, changes, kind="postgresql", log=log)
    create: CreateTable = after.step(CreateTable)
    assert {c.name: c.older for c in create.columns if c.older} == {"new": "7"}
    assert after.left_out == ("name", "xml")
    # a sync reads them
    plan = planned()
    changes = judge_drift(plan, source, "follow", log).followed
    after = evolved(plan, source, changes, kind="postgresql", log=log)
    assert after.step(CreateTable).columns[-1].older is None
    assert after.left_out == ()
