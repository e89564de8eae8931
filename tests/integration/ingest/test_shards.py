"""Tables of many databases as one lake table: asked for, refused, planned, renewed."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.discovery.store import VANISHED
from catalog.models import Column, Table
from core.errors import InvalidRequest, StaleState
from core.jobs import RUNNING
from core.models import Job
from ingest.alerts.triggers import _about_columns
from ingest.contract.job import RepairWork
from ingest.contract.table import SHARD, ShardSpec
from ingest.jobs.kinds import table_spec
from ingest.maintenance import repair_job, repairs
from ingest.models import Onboarding, Pipeline, Policy, Shard
from ingest.pipelines import (
    drafting,
    lake_reconcile,
    load_job,
    onboarding,
    schema_drift,
    shard_joins,
    shards,
    table_commands,
)
from ingest.pipelines.drafting import plan_onboarding
from ingest.pipelines.new_tables import take_new_tables
from ingest.pipelines.plan_overrides import choose_for
from ingest.pipelines.requests import parse_request
from ingest.pipelines.schema_approval import proposal_of
from ingest.pipelines.schema_diff import drift_of, source_changed
from ingest.pipelines.table_job import queue_again
from ingest.planning.facts import Choices
from ingest.planning.plan import CreateTable, plan_from_json
from tests.doubles.launcher import Fault
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.integration.ingest.test_adoption import adopt as rebuild
from tests.integration.ingest.test_new_tables import discovered
from tests.integration.ingest.test_rebuild import lose_database
from tests.integration.ingest.world import ANN, COLUMNS, World, make_tables

pytestmark = pytest.mark.django_db


@pytest.fixture
def shops(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    # discoveries end at once, and find what is stored
    monkeypatch.setattr(schema_drift, "_is_open", lambda _: False)
    monkeypatch.setattr(schema_drift, "LOOK_SECONDS", 0.0)
    for number in (1, 2, 10):
        make_tables(world.source, ["orders"], database=f"shop_{number}")
    make_tables(world.source, ["orders", "people"], database="other")
    return world


def body(**more: Any) -> dict[str, Any]:
    return {
        "datasource": "shop",
        "include": ["shop_*.orders"],
        "capture": "snapshot",
        "shards": {"column": "shop"},
        "approve": True,
        **more,
    }


def ask(**more: Any) -> Pipeline:
    row = onboarding.start_onboarding(parse_request(body(**more)), principal=ANN)
    return row.tables.select_related("source_table__database__datasource").get()


def create_of(row: Pipeline) -> CreateTable:
    found: CreateTable = plan_from_json(row.plan).step(CreateTable)
    return found


def test_all_become_one_lake_table_that_tells_them_apart(shops: World) -> None:
    row = ask()
    create = create_of(row)
    assert create.record_key == (SHARD, "id")
    assert [c.name for c in create.columns][:2] == ["shop", "id"]
    assert row.lake_table is not None
    assert row.lake_table.record_key == ["shop", "id"]
    assert (row.lake_table.source_name, row.plan["name"]) == ("shop_*.orders", "orders")
    spec = table_spec(plan_from_json(row.plan), row.lake_table, row.source_table)
    assert spec.shards == tuple(
        ShardSpec(f"shop_{n}", "orders", n) for n in ("1", "10", "2")
    )
    assert (spec.source_schema, spec.key) == ("shop_1", (SHARD, "id"))
    assert Shard.objects.count() == 3
    load = next(s for s in row.plan["steps"] if s["step"] == "LoadSnapshot")
    assert load["estimated_rows"] == 3000
    assert row.lake_table.estimated_rows == 3000


def test_a_load_reckons_with_the_rows_of_all_of_them(shops: World) -> None:
    ask()
    shops.until_live("orders")
    (job,) = shops.jobs("snapshot")
    assert job.weight == 3000
    (spec,) = (s for s in shops.launcher.submitted if s.kind == "snapshot")
    assert spec.table.estimated_rows == 3000


@pytest.mark.parametrize(
    ("more", "pointer", "words"),
    [
        ({"include": ["shop_*.*"]}, "/include/0", "one star within the name of the"),
        ({"include": ["*.orders"]}, "/include/0", "one star within the name of the"),
        ({"include": ["shop_1.ord*"]}, "/include/0", "one star within the name of"),
        ({"include": ["shop_1.orders"]}, "/include/0", "one star within the name of"),
        ({"shards": {"column": "Shop"}}, "/shards/column", "cannot be a column"),
        ({"shards": {"column": "_sluice_x"}}, "/shards/column", "cannot be a column"),
        ({"capture": "timestamp"}, "/capture", "syncs by a timestamp read one"),
        (
            {"include": ["shop_*.orders", "shop*.orders"]},
            "/include/1",
            "would be a shard of two tables",
        ),
        ({"include": ["shop_1*.orders"]}, "/include/0", "shard would have no name"),
    ],
)
def test_what_cannot_be_meant_is_refused_where_it_stands(
    shops: World, more: dict[str, Any], pointer: str, words: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        ask(**more)
    told = caught.value.facts["errors"]
    assert words in str({e["pointer"]: e["detail"] for e in told}[pointer])
    assert not Pipeline.objects.exists()


def test_what_one_of_them_alone_is_warned_of_is_in_the_plan(shops: World) -> None:
    last = Table.objects.get(database__name="shop_2", name="orders")
    last.identity |= {"key_forms": {"id": "utf8mb4_general_ci"}}
    last.save()
    (planned,) = plan_onboarding(parse_request(body()), principal=ANN).planned
    found = [w for w in planned.plan.warnings if "several texts of the key" in w]
    assert [w.partition(": ")[0] for w in found] == ["shop_2.orders"]


def test_one_that_is_synced_by_itself_is_no_shard_without_a_word(shops: World) -> None:
    plain = body(include=["shop_2.orders"], shards=None)
    onboarding.start_onboarding(parse_request(plain), principal=ANN)
    with pytest.raises(InvalidRequest, match=r"shop_2.orders .* synced already"):
        ask()
    row = ask(exclude=["shop_2.orders"])
    assert [one.value for one in create_of(row).shards] == ["1", "10"]
    # nor can a shard be synced by itself
    with pytest.raises(InvalidRequest, match="onboarded already"):
        ask(include=["shop_1.orders"], shards=None)


def test_one_that_came_to_be_synced_meanwhile_is_refused(
    shops: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = drafting.plan_onboarding(parse_request(body()), principal=ANN)
    plain = body(include=["shop_10.orders"], shards=None)
    onboarding.start_onboarding(parse_request(plain), principal=ANN)
    monkeypatch.setattr(onboarding, "plan_onboarding", lambda *_, **__: draft)
    with pytest.raises(StaleState, match="by another request"):
        ask()


def test_one_that_cannot_be_synced_stops_the_plan(shops: World) -> None:
    gone = Table.objects.filter(database__name="shop_10")
    gone.update(status="UNSUPPORTED", status_reason="a view without rows")
    with pytest.raises(InvalidRequest, match=r"shop_10.orders is not taken"):
        ask()


def test_one_of_another_shape_blocks_the_plan_and_can_be_excluded(shops: World) -> None:
    Column.objects.filter(table__database__name="shop_2", source_name="name").update(
        source_type="integer", type="int"
    )
    draft = plan_onboarding(parse_request(body()), principal=ANN)
    (planned,) = draft.planned
    assert "shop_2.orders is not like shop_1.orders" in planned.plan.blocked
    assert planned.plan.proposals["capture"].choices == ("log",)
    row = ask(exclude=["shop_2.*"])
    assert [one.value for one in create_of(row).shards] == ["1", "10"]


def test_no_plan_names_a_capture_that_is_refused(shops: World) -> None:
    asked = body(capture="log", tables={"shop_*.orders": {"updates": "partial"}})
    (planned,) = plan_onboarding(parse_request(asked), principal=ANN).planned
    assert "leave 'updates' out" in planned.plan.blocked
    assert "timestamp" not in planned.plan.blocked


def test_a_column_of_that_name_blocks_the_plan(shops: World) -> None:
    row = ask(shards={"column": "name"})
    assert "choose another name" in row.status_reason
    assert row.state == "PROPOSED"


def test_choices_are_made_for_all_of_them(shops: World) -> None:
    row = ask(approve=False, tables={"shop_*.orders": {"buckets": 3}})
    assert create_of(row).buckets == 3
    plan = choose_for(row, Choices(buckets=5), principal=ANN)
    assert plan.step(CreateTable).buckets == 5
    assert plan.step(CreateTable).record_key == (SHARD, "id")
    assert len(plan.step(CreateTable).shards) == 3


def live(shops: World) -> Pipeline:
    ask()
    shops.until_live("orders")
    return Pipeline.objects.select_related("source_table__database__datasource").get()


def test_what_all_of_them_get_is_a_change_and_what_some_get_is_none_yet(
    shops: World,
) -> None:
    row = live(shops)
    assert drift_of(row) == drift_of(row, plan_from_json(row.plan))
    tables = list(Table.objects.filter(shards__pipeline=row).order_by("pk"))

    def add(table: Table) -> None:
        table.columns.create(
            position=9, name="note", source_name="note", source_type="text",
            type="string", nullable=True,
        )  # fmt: skip
        Table.objects.filter(pk=table.pk).update(schema_fingerprint="with note")

    add(tables[0])
    assert not drift_of(row).to_approve
    assert shards.are_unlike(row)
    add(tables[1])
    add(tables[2])
    assert not shards.are_unlike(row)
    assert [one.column for one in drift_of(row).to_approve] == ["note"]
    tables[1].columns.filter(name="name").update(source_type="bytea", type="binary")
    assert {one.column for one in drift_of(row).blocking} == {"name"}


def test_hundreds_of_shards_cost_statements_by_their_kind_not_by_their_number(
    shops: World,
) -> None:
    row = live(shops)

    def statements() -> list[str]:
        fresh = Pipeline.objects.select_related("source_table__database__datasource")
        pipeline = fresh.get(pk=row.pk)
        with CaptureQueriesContext(connection) as found:
            assert source_changed(pipeline, plan_from_json(pipeline.plan)) is None
            shards.not_taken(pipeline)
            shards.look_at(pipeline, by="ann")
        Job.objects.filter(kind="look").delete()
        return [one["sql"] for one in found]

    before = statements()
    # nothing changed at the source: nobody reads the columns of all of them
    assert not [one for one in before if "catalog_column" in one]
    for number in range(20, 40):
        make_tables(shops.source, ["orders"], database=f"shop_{number}")
    table_commands.start_resync(row.lake_table, actor="ann")
    shops.until(lambda: len(create_of(Pipeline.objects.get()).shards) == 23)
    shops.until_live("orders")
    assert len(statements()) == len(before)


def test_a_shard_that_a_discovery_saw_as_it_was_away_is_looked_for_first(
    shops: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be back: without it the resync would take its rows from the lake."""
    row = live(shops)
    one = Table.objects.filter(database__name="shop_2", name="orders")
    one.update(status=VANISHED)
    new, gone = make_tables(shops.source, ["orders"], database="shop_3")[0], "shop_10"
    ended: list[str] = []
    monkeypatch.setattr(schema_drift, "_is_open", lambda job: job not in ended)
    table_commands.start_resync(row.lake_table, actor="ann")
    shops.until(lambda: Job.objects.filter(kind="discover").exists())
    shops.steps(5)
    assert len(create_of(Pipeline.objects.get()).shards) == 3
    one.update(status=new.status)
    Table.objects.filter(database__name=gone, name="orders").update(status=VANISHED)
    ended.append(str(Job.objects.get(kind="discover").pk))
    shops.until_live("orders")
    found = {one.value for one in create_of(Pipeline.objects.get()).shards}
    assert found == {"1", "2", "3"}


def test_a_new_shard_is_told_and_read_by_the_next_resync(shops: World) -> None:
    row = live(shops)
    (new,) = make_tables(shops.source, ["orders"], database="shop_3")
    discovered(shops)
    assert take_new_tables() == 0
    told = _about_columns(row)
    assert told is not None
    assert "are not read: shop_3.orders" in str(told.message)
    table_commands.start_resync(row.lake_table, actor="ann")
    shops.until(lambda: len(create_of(Pipeline.objects.get()).shards) == 4)
    shops.until_live("orders")
    row = Pipeline.objects.get()
    assert _about_columns(row) is None
    assert new in shards.tables_of(row)


def test_a_new_shard_that_a_cancelled_resync_did_not_read_is_told_until_one_does(
    shops: World,
) -> None:
    row = live(shops)
    make_tables(shops.source, ["orders"], database="shop_3")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load_job, "hold_table", lambda *_: None)
        job = table_commands.start_resync(row.lake_table, actor="ann")
        shops.until(lambda: len(create_of(Pipeline.objects.get()).shards) == 4)
        table_commands.cancel_job(job.pk, actor="ann")
    shops.until(lambda: Pipeline.objects.get().state == "PAUSED")
    table_commands.resume(row.lake_table, actor="ann")
    told = _about_columns(Pipeline.objects.get())
    assert told is not None
    assert (told.code, told.repair) == ("shards_unread", "join-shards")
    table_commands.start_resync(row.lake_table, actor="ann")
    shops.until(lambda: shops.jobs("resync")[-1].state == "SUCCEEDED")
    assert _about_columns(Pipeline.objects.get()) is None


def test_a_new_shard_of_another_shape_stops_the_resync_before_it_reads(
    shops: World,
) -> None:
    row = live(shops)
    make_tables(shops.source, ["orders"], COLUMNS[:1], database="shop_3")
    table_commands.start_resync(row.lake_table, actor="ann")
    shops.until(lambda: shops.jobs("resync")[-1].state not in {"QUEUED", RUNNING})
    assert "shop_3.orders cannot be read" in str(shops.jobs("resync")[-1].reason)
    assert len(create_of(Pipeline.objects.get()).shards) == 3


def test_a_new_shard_that_cannot_be_read_is_told_and_stops_the_resync(
    shops: World,
) -> None:
    row = live(shops)
    (new,) = make_tables(shops.source, ["orders"], database="shop_3")
    why = "the datasource's user may not SELECT it"
    Table.objects.filter(pk=new.pk).update(status="NO_PRIVILEGE", status_reason=why)
    told = _about_columns(row)
    assert told is not None
    assert "are not read: shop_3.orders" in str(told.message)
    table_commands.start_resync(row.lake_table, actor="ann")
    shops.until(lambda: shops.jobs("resync")[-1].state not in {"QUEUED", RUNNING})
    assert why in str(shops.jobs("resync")[-1].reason)


def test_a_shard_that_went_is_told_and_left_out_by_a_resync(shops: World) -> None:
    row = live(shops)
    Table.objects.filter(database__name="shop_1").update(status=VANISHED)
    changed = source_changed(row, plan_from_json(row.plan))
    assert changed is not None
    assert "shop_1.orders was dropped" in str(changed)
    table_commands.start_resync(row.lake_table, actor="ann")
    shops.until(lambda: len(create_of(Pipeline.objects.get()).shards) == 2)
    row = Pipeline.objects.get()
    assert row.source_table.database.name == "shop_10"


def test_a_lost_database_gets_its_shards_back_from_the_lake(shops: World) -> None:
    before = live(shops)
    shops.steps(3)
    names = [str(table) for table in shards.tables_of(before)]
    Shard.objects.all().delete()
    lose_database(shops)
    assert rebuild()[0] == 0
    row = Pipeline.objects.select_related("source_table__database__datasource").get()
    assert [str(table) for table in shards.tables_of(row)] == names
    assert create_of(row) == create_of(before)
    assert shards.column_of(row) == "shop"


def unread_of(row: Pipeline) -> list[str]:
    row.refresh_from_db()
    return [one.name for one in shard_joins.unread(row)]


def came(shops: World, database: str = "shop_3", **more: Any) -> Pipeline:
    """A live table, and a shard that came to it."""
    row = live(shops)
    make_tables(shops.source, ["orders"], database=database, **more)
    return row


def join(row: Pipeline) -> Job:
    assert row.lake_table is not None
    return repairs.start_repair(row.lake_table, RepairWork("join"), actor="ann")


def test_a_new_shard_joins_alone_and_is_told_as_unread_until_it_is_read(
    shops: World,
) -> None:
    row = came(shops)
    told = _about_columns(row)
    assert told is not None
    assert told.repair == "join-shards"
    preview = repairs.preview(row.lake_table, RepairWork("join"))
    assert "1 table of the source is read, and no other: shop_3.orders" in preview.will
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repair_job, "hold_table", lambda *_, **__: None)
        join(row)
        shops.steps(2)
        assert unread_of(row) == ["shop_3.orders"]
        told = _about_columns(row)
        assert told is not None
        assert (told.code, told.repair) == ("shards_unread", "join-shards")
        (matter,) = proposal_of(row.lake_table).shards
        assert (matter.code, matter.names) == ("shards_unread", ("shop_3.orders",))
        assert len(shards.tables_of(row)) == len(create_of(row).shards) == 4
    shops.until(lambda: shops.jobs("repair")[-1].state == "SUCCEEDED")
    spec = next(s for s in shops.launcher.submitted if s.kind == "repair")
    assert spec.repair.shards == ("shop_3.orders",)
    assert spec.table.shards[-1] == ShardSpec("shop_3", "orders", "3", is_unread=True)
    assert unread_of(row) == []
    assert _about_columns(row) is None
    found = create_of(row).shards[-1]
    assert (found.value, found.is_unread) == ("3", False)
    with pytest.raises(InvalidRequest, match="that are known are read"):
        join(row)


def test_whatever_becomes_of_the_job_the_shard_stays_and_is_told(
    shops: World,
) -> None:
    row = came(shops)
    shops.fail_with("repair", Fault.TERMINAL)
    job = join(row)
    shops.until(lambda: shops.jobs("repair")[-1].state == "FAILED")
    assert unread_of(row) == ["shop_3.orders"]
    told = _about_columns(row)
    assert told is not None
    assert told.code == "shards_unread"
    queue_again(job.pk, "ann", revive=repair_job._revive)
    shops.until(lambda: shops.jobs("repair")[-1].state == "SUCCEEDED")
    assert unread_of(row) == []


def test_one_that_comes_while_others_are_read_is_read_by_the_next_job(
    shops: World,
) -> None:
    """What an attempt has committed is what its job began with."""
    row = came(shops)
    shops.fail_with("repair", Fault.TRANSIENT)
    first = join(row)
    shops.until(lambda: "joining" in Job.objects.get(pk=first.pk).payload)
    make_tables(shops.source, ["orders"], database="shop_4")
    row.refresh_from_db()
    shard_joins.take_in(row)
    assert unread_of(row) == ["shop_3.orders", "shop_4.orders"]
    shops.until(lambda: unread_of(row) == [])
    specs = [s for s in shops.launcher.submitted if s.kind == "repair"]
    assert [s.repair.shards for s in specs] == [
        ("shop_3.orders",),
        ("shop_3.orders",),
        ("shop_4.orders",),
    ]


def test_a_resync_reads_what_waited_to_be_read(shops: World) -> None:
    row = came(shops)
    shops.fail_with("repair", Fault.TERMINAL)
    join(row)
    shops.until(lambda: shops.jobs("repair")[-1].state == "FAILED")
    table_commands.start_resync(row.lake_table, actor="ann")
    row.refresh_from_db()
    with pytest.raises(InvalidRequest, match="no shard joins it now"):
        join(row)
    shops.until(lambda: shops.jobs("resync")[-1].state == "SUCCEEDED")
    assert unread_of(row) == []
    assert _about_columns(row) is None


def test_one_that_is_not_like_the_others_does_not_join(shops: World) -> None:
    row = came(shops, columns=COLUMNS[:1])
    with pytest.raises(InvalidRequest, match="cannot be read with the other"):
        join(row)
    assert unread_of(row) == []
    assert len(create_of(row).shards) == 3


def test_one_that_went_before_it_was_read_needs_a_resync(shops: World) -> None:
    row = came(shops)
    shops.fail_with("repair", Fault.TERMINAL)
    join(row)
    shops.until(lambda: shops.jobs("repair")[-1].state == "FAILED")
    Table.objects.filter(database__name="shop_3").update(status=VANISHED)
    table_commands.start_resync(row.lake_table, actor="ann")
    shops.until(lambda: shops.jobs("resync")[-1].state == "SUCCEEDED")
    row.refresh_from_db()
    assert [one.value for one in create_of(row).shards] == ["1", "10", "2"]
    assert _about_columns(row) is None


def test_it_joins_when_it_is_asked_for_by_rest(shops: World, admin: Any) -> None:
    row = came(shops)
    reply = admin("POST", f"tables/{row.lake_table_id}:join-shards")
    assert reply.status_code == 202, reply.content
    shops.until(lambda: not unread_of(row))
    (job,) = shops.jobs("repair")
    assert (str(job.pk), job.state, job.requested_by) == (
        reply.json()["id"],
        "SUCCEEDED",
        "root",
    )


@pytest.mark.parametrize(
    ("policy", "joins"), [("join", True), ("ask", False), ("ignore", False)]
)
def test_it_joins_by_itself_where_the_policy_says_so(
    shops: World, policy: str, joins: bool
) -> None:
    User.objects.create(username=ANN.name, is_superuser=True)
    row = came(shops)
    Policy.objects.create(datasource=shops.source, given={"new_tables": policy})
    discovered(shops)
    assert take_new_tables() == int(joins)
    assert bool(unread_of(row)) is joins
    shops.until(lambda: not unread_of(row))
    assert len(create_of(row).shards) == (4 if joins else 3)
    assert [j.requested_by for j in shops.jobs("repair")] == (["ann"] if joins else [])


@pytest.mark.parametrize("is_renewed", [False, True])
def test_what_a_cancelled_resync_was_to_read_joins_by_itself(
    shops: World, is_renewed: bool
) -> None:
    """Whether its list was renewed by then or not: no later discovery has to come."""
    User.objects.create(username=ANN.name, is_superuser=True)
    row = came(shops)
    Policy.objects.create(datasource=shops.source, given={"new_tables": "join"})
    with pytest.MonkeyPatch.context() as patch:
        if is_renewed:
            patch.setattr(load_job, "hold_table", lambda *_: None)
        else:
            patch.setattr(schema_drift, "waits_for_shards", lambda *_: True)
        job = table_commands.start_resync(row.lake_table, actor="ann")
        shops.steps(3)
        discovered(shops)
        assert take_new_tables() == 0
        assert bool(unread_of(row)) is is_renewed
        table_commands.cancel_job(job.pk, actor="ann")
        shops.until(lambda: Pipeline.objects.get().state == "PAUSED")
    take_new_tables()
    shops.until(lambda: shops.jobs("repair")[-1:] and not unread_of(row))
    assert len(create_of(row).shards) == 4
    assert take_new_tables() == 0


def test_it_does_not_join_by_the_rights_that_somebody_had_once(shops: World) -> None:
    row = came(shops)
    Policy.objects.create(datasource=shops.source, given={"new_tables": "join"})
    Onboarding.objects.update(approved_by="nobody")
    discovered(shops)
    assert take_new_tables() == 0
    assert unread_of(row) == []
    told = _about_columns(row)
    assert told is not None
    assert told.code == "shards_not_read"


def test_a_lake_that_goes_back_behind_it_lacks_it_again(shops: World) -> None:
    """A shard joins at the position where the table is: no epoch tells."""
    row = came(shops)
    shard_joins.take_in(row)
    shard_joins.note_read(row, ["shop_3.orders"], instant="20260102000000000")
    assert unread_of(row) == []
    assert row.lake_table is not None
    facts = {"position": {"to": "x"}, "epoch": 1, "instant": "20260103000000000"}
    lake_reconcile.note_restored(row, {**facts, "restored": "20260103000000000"})
    assert unread_of(row) == []
    lake_reconcile.note_restored(row, {**facts, "restored": "20260101000000000"})
    assert unread_of(row) == ["shop_3.orders"]
    told = _about_columns(row)
    assert told is not None
    assert told.code == "shards_unread"
