"""Requests for many tables: planned, approved and removed in bulk, names pinned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from catalog.models import Column, Datasource, Table
from core.errors import InvalidRequest, NotFound, TerminalError, TransientError
from core.leases import release_all, take_lease
from core.models import Job, Lease
from ingest.jobs import leases
from ingest.jobs.kinds import staging_path
from ingest.lake.place import place_at
from ingest.maintenance import compact_job
from ingest.models import Pipeline
from ingest.pipelines import onboarding, removal, table_commands
from ingest.pipelines.drafting import plan_onboarding
from ingest.pipelines.plan_overrides import Everywhere, choose_for_many
from ingest.pipelines.requests import parse_request
from tests.integration.ingest.world import ANN, COLUMNS, make_tables

pytestmark = pytest.mark.django_db


def ask(world, **more):
    body = {"datasource": "shop", "include": ["public.*"], "capture": "timestamp"}
    return onboarding.start_onboarding(parse_request({**body, **more}), principal=ANN)


def statements(world, count: int, prefix: str) -> int:
    make_tables(world.source, [f"{prefix}{n}" for n in range(count)])
    with CaptureQueriesContext(
        connection,
    ) as seen:
        ask(world, include=[f"public.{prefix}*"], approve=True)
    return len(seen)


def test_many_tables_cost_no_statement_each(world) -> None:
    few, many = statements(world, 3, "few"), statements(world, 103, "many")
    assert many - few <= 8, f"{few} statements for 3 tables, {many} for 103"
    assert Job.objects.filter(kind="snapshot", state="QUEUED").count() == 106
    assert Pipeline.objects.filter(state="APPROVED").count() == 106


def test_one_publication_is_proposed_for_all_tables_of_a_plan(world) -> None:
    made = make_tables(world.source, ["a", "b", "c"])
    for table in made:
        table.identity["log"] = {"is_full": False, "identity": ["id"]}
    Table.objects.bulk_update(made, ["identity"])
    row = ask(world, capture="log")
    everywhere = Everywhere(capture="log")
    found = row.tables.order_by("pk")
    for _ in ("as asked", "again"):
        first, *others = (each.status_reason for each in found.all())
        assert 'FOR TABLE "public"."a", "public"."b", "public"."c" WITH' in first
        assert all("shown for public.a" in each for each in others)
        assert choose_for_many(found, everywhere, principal=ANN).planned == 3


def test_names_are_derived_pinned_and_never_merged(world) -> None:
    odd = [
        ("id", "bigint", "bigint", False, 1),
        ("Größe", "text", "string", True, 0),
        ("a b", "text", "string", True, 0),
        ("A B", "text", "string", True, 0),
        ("_hoodie_x", "text", "string", True, 0),
        ("updated_at", "timestamp with time zone", "timestamp", False, 0),
    ]
    make_tables(world.source, ["Order", "order", "1a", "订单"], columns=odd)
    assert ask(world, approve=True).approved_at is not None
    lake = {t.source_name: t for t in Table.objects.filter(kind="lake")}
    assert lake["public.order"].name == "order"
    names = [t.name for t in lake.values()]
    assert len(set(names)) == 4
    assert all(n == n.lower() and n.isascii() for n in names)
    columns = list(lake["public.order"].columns.values_list("name", flat=True))
    assert len({c.lower() for c in columns}) == len(odd)
    assert not any(c.startswith("_hoodie_") and len(c) < 15 for c in columns)


def test_lake_names_do_not_depend_on_what_is_onboarded_first(world) -> None:
    make_tables(world.source, ["Twin", "twin"])
    ask(world, include=["public.Twin"], approve=True)
    ask(world, include=["public.twin"], approve=True)
    lake = {t.source_name: t.name for t in Table.objects.filter(kind="lake")}
    assert lake["public.twin"] == "twin"
    assert lake["public.Twin"].startswith("twin_")


def test_a_table_is_named_within_the_database_where_it_goes_anyway(world) -> None:
    make_tables(world.source, ["orders", "items"])
    ask(world, tables={"public.orders": {"lake": "first"}}, approve=True)
    lake = Table.objects.filter(kind="lake").select_related("database")
    names = {str(t): t.source_name for t in lake}
    assert names == {
        "lake.shop.first": "public.orders",
        "lake.shop.items": "public.items",
    }


def test_the_lake_table_carries_the_pinned_identity(world) -> None:
    make_tables(world.source, ["orders"])
    ask(world, approve=True)
    table = Table.objects.get(kind="lake")
    assert table.identity["record_key"] == ["id"]
    assert table.identity["buckets"] == table.buckets == 1
    assert table.path.endswith("/shop/orders")
    assert table.columns.count() == len(COLUMNS)
    assert table.schema_versions.get().version == 1


def test_a_dry_run_stores_nothing(world) -> None:
    make_tables(world.source, ["orders"])
    draft = plan_onboarding(
        parse_request({"datasource": "shop", "include": ["public.*"], "dry_run": True}),
        principal=ANN,
    )
    assert draft.planned[0].plan.steps
    assert not Pipeline.objects.exists()


def test_a_table_without_key_waits_and_the_others_go_on(world) -> None:
    make_tables(world.source, ["orders"])
    keyless = [(n, s, t, nullable, 0) for n, s, t, nullable, _ in COLUMNS]
    make_tables(world.source, ["logs"], columns=keyless)
    row = ask(world, approve=True)
    by_name = {
        f.source_table.name: f for f in row.tables.select_related("source_table")
    }
    assert by_name["orders"].state == "APPROVED"
    assert by_name["logs"].state == "PROPOSED"
    assert "record_key" in by_name["logs"].status_reason
    assert onboarding.approve_onboarding(row, principal=ANN) == []
    # what is approved stays; the other one is free to be asked for again
    assert onboarding.discard_onboarding(row, actor="ann") == 1
    assert onboarding.discard_onboarding(row, actor="ann") == 0
    assert world.pipeline("orders").state == "APPROVED"
    assert world.pipeline("logs").state == "RETIRED"
    assert world.pipeline("logs").events.last().event == "discard"
    free = {"datasource": "shop", "include": ["public.*"]}
    again = plan_onboarding(parse_request(free), principal=ANN)
    assert [one.plan.source for one in again.planned] == ["public.logs"]


@pytest.mark.parametrize(
    ("more", "code", "pointer"),
    [
        ({"include": ["public.nothing"]}, "unknown_table", "/include/0"),
        ({"include": ["public.orders", "x.*"]}, "unknown_table", "/include/1"),
        ({"tables": {"public.other": {}}}, "unknown_table", "/tables/public.other"),
        (
            {"tables": {"public.orders": {"cursor": "nope"}}},
            "unknown_column",
            "/tables/public.orders/cursor",
        ),
        ({"target_database": "Mart"}, "invalid_name", "/target_database"),
        ({"target_database": "default"}, "invalid_name", "/target_database"),
    ],
)
def test_mistakes_are_refused_with_a_pointer(world, more, code, pointer) -> None:
    make_tables(world.source, ["orders"])
    with pytest.raises(InvalidRequest) as caught:
        ask(world, **more)
    assert caught.value.code == code
    assert caught.value.facts["errors"][0]["pointer"] == pointer
    assert not Pipeline.objects.exists()


def test_all_mistakes_are_told_at_once_each_with_its_pointer(world) -> None:
    make_tables(world.source, ["orders", "lines"])
    Table.objects.filter(name="lines").update(
        status="NO_PRIVILEGE", status_reason="the datasource's user may not SELECT it"
    )
    with pytest.raises(InvalidRequest) as caught:
        ask(
            world,
            include=["public.nothing", "public.lines", "public.orders"],
            tables={"public.orders": {"cursor": "nope"}},
            target_database="Mart",
        )
    pointers = [one["pointer"] for one in caught.value.facts["errors"]]
    assert pointers == [
        "/include/0",
        "/include/1",
        "/target_database",
        "/tables/public.orders/cursor",
    ]
    assert "GRANT SELECT" in caught.value.hint


def test_tables_have_their_own_capture_and_schedule_and_defaults_for_all(world) -> None:
    keyless = [(n, s, t, nullable, 0) for n, s, t, nullable, _ in COLUMNS]
    make_tables(world.source, ["orders", "lines", "rates"])
    make_tables(world.source, ["logs"], columns=keyless)
    hourly = {"cron": "0 * * * *", "timezone": "UTC"}
    row = ask(
        world,
        tables={
            "public.rates": {"capture": "snapshot"},
            "public.lines": {"schedule": hourly, "buckets": 3},
        },
        defaults={"buckets": 7, "otherwise": "snapshot"},
        schedule={"every_seconds": 60},
    )
    found = {f.source_table.name: f for f in row.tables.select_related("source_table")}
    seen = {n: (f.capture, f.policy.get("schedule")) for n, f in found.items()}
    assert seen == {
        "orders": ("timestamp", {"every_seconds": 60}),
        "lines": ("timestamp", hourly),
        "rates": ("snapshot", None),
        "logs": ("snapshot", None),
    }
    assert not any(f.status_reason for f in found.values())
    buckets = {n: f.plan["proposals"]["buckets"]["value"] for n, f in found.items()}
    assert buckets == {"orders": 7, "lines": 3, "rates": 7, "logs": 7}
    assert found["logs"].plan["steps"][0]["row_hash"]


def test_an_unknown_datasource(world) -> None:
    with pytest.raises(NotFound):
        ask(world, datasource="nowhere")
    with pytest.raises(NotFound):
        ask(world, datasource="lake")


def test_asking_again_is_refused_by_name_and_skipped_by_pattern(world) -> None:
    make_tables(world.source, ["a", "b"])
    ask(world, include=["public.a"], approve=True)
    with pytest.raises(InvalidRequest) as caught:
        ask(world, include=["public.a"])
    assert caught.value.code == "already_onboarded"
    row = ask(world)
    assert row.request["skipped"] == ["public.a"]
    assert [f.source_table.name for f in row.tables.all()] == ["b"]


def test_two_plans_never_promise_one_name(world) -> None:
    make_tables(world.source, ["Order"])
    ask(world)
    make_tables(world.source, ["order"])
    ask(world)
    names = {f.plan["name"] for f in Pipeline.objects.all()}
    assert len(names) == 2


def test_tables_called_alike_never_move_to_one_name_at_once(world) -> None:
    make_tables(world.source, ["a", "b"])
    row = ask(world)
    pipelines = Pipeline.objects.order_by("pk")
    for pipeline in pipelines:
        # as tables of two schemas are
        plan = {"database": f"shop_{pipeline.pk}", "name": "orders"}
        Pipeline.objects.filter(pk=pipeline.pk).update(plan={**pipeline.plan, **plan})
    done = choose_for_many(pipelines.all(), Everywhere(database="mart"), principal=ANN)
    assert (done.planned, [name for name, _ in done.refused]) == (1, ["public.b"])
    assert "public.a becomes lake.mart.orders" in done.refused[0][1]
    assert len(onboarding.approve_onboarding(row, principal=ANN)) == 2
    late = choose_for_many(pipelines.all(), Everywhere(database="mart"), principal=ANN)
    assert late.planned == 0


def test_of_two_plans_with_one_name_the_second_waits(world) -> None:
    make_tables(world.source, ["a", "b"])
    row = ask(world)
    for pipeline in Pipeline.objects.all():
        plan = {**pipeline.plan, "database": "mart", "name": "orders"}
        Pipeline.objects.filter(pk=pipeline.pk).update(plan=plan)
    assert len(onboarding.approve_onboarding(row, principal=ANN)) == 1
    assert "exists already" in world.pipeline("b").status_reason


def test_removal_keeps_the_data(world) -> None:
    world.live("orders")
    table = world.lake("orders")
    preview = removal.plan_removal(table, drop_data=False)
    assert "keep" in preview.will[1]
    job = removal.start_removal(table, drop_data=False, actor="ann")
    world.until(lambda: Job.objects.get(pk=job.pk).state == "SUCCEEDED")
    assert world.pipeline("orders").state == "RETIRED"
    table.refresh_from_db()
    assert table.is_queryable
    assert Path(table.path).exists()
    # which has its name; what comes instead is beside it
    ask(world, include=["public.orders"], approve=True)
    again = Pipeline.objects.exclude(state="RETIRED").get().lake_table
    assert again.database == table.database
    assert again.name.startswith("orders_")


def test_removal_drops_the_data_in_pages(world, monkeypatch) -> None:
    monkeypatch.setattr(removal, "PAGE_SECONDS", -1.0)  # one file a page
    world.live("orders")
    table = world.lake("orders")
    preview = removal.plan_removal(table, drop_data=True)
    assert preview.files > 1
    job = removal.start_removal(table, drop_data=True, actor="ann")
    table.refresh_from_db()
    assert not table.is_queryable
    world.until(lambda: Job.objects.get(pk=job.pk).state == "SUCCEEDED")
    assert not Path(table.path).exists()
    assert not Table.objects.filter(pk=table.pk).exists()
    assert not Column.objects.filter(table_id=table.pk).exists()
    ask(world, include=["public.orders"], approve=True)
    again = Pipeline.objects.exclude(state="RETIRED").get().lake_table
    assert str(again) == str(table)


def test_a_name_that_is_another_source_s_by_now_is_not_taken_back(world) -> None:
    world.live("orders")
    job = removal.start_removal(world.lake("orders"), drop_data=True, actor="ann")
    world.until(lambda: Job.objects.get(pk=job.pk).state == "SUCCEEDED")
    other = Datasource.objects.create(name="other", kind="postgresql")
    make_tables(other, ["orders"])
    asked = {"datasource": "other", "include": ["public.orders"]}
    ask(world, **asked, target_database="shop", approve=True)
    ask(world, include=["public.orders"], approve=True)
    mine = Pipeline.objects.exclude(state="RETIRED")
    mine = mine.get(source_table__database__datasource=world.source)
    assert mine.plan["database"].startswith("shop_")


def test_a_removal_deletes_nothing_while_another_job_has_the_table(
    world, monkeypatch
) -> None:
    """Nothing renewed its leases for so long that they ended."""
    monkeypatch.setattr(removal, "PAGE_SECONDS", -1.0)  # one file a page
    world.live("orders")
    table = world.lake("orders")
    job = removal.start_removal(table, drop_data=True, actor="ann")
    world.until(lambda: Job.objects.get(pk=job.pk).done > 0)
    Lease.objects.exclude(owner="").update(expires_at=Now())
    service = leases.lease_name(table.pk, leases.SERVICE)
    assert take_lease(service, owner="another", seconds=600)
    left = list(place_at(table.path).files())
    world.steps(3)
    assert list(place_at(table.path).files()) == left != []
    waiting = Job.objects.get(pk=job.pk)
    assert waiting.state == "RUNNING"
    assert "another job has the table's lease" in waiting.reason
    release_all("another")
    world.until(lambda: Job.objects.get(pk=job.pk).state == "SUCCEEDED")
    assert not place_at(table.path).exists()


@pytest.mark.parametrize("drop_data", [True, False])
def test_what_was_staged_is_deleted_in_pages_too(
    world, monkeypatch, *, drop_data
) -> None:
    monkeypatch.setattr(removal, "PAGE_SECONDS", -1.0)  # one file a page
    world.live("orders")
    table = world.lake("orders")
    staged = place_at(staging_path(table.pk))
    for number in range(3):
        (staged / f"chunk-{number}").replace("rows")
    job = removal.start_removal(table, drop_data=drop_data, actor="ann")
    counts = set()

    def is_done() -> bool:
        counts.add(len(staged.names()))
        return Job.objects.get(pk=job.pk).state == "SUCCEEDED"

    world.until(is_done)
    assert counts == {0, 1, 2, 3}


def test_removal_of_a_running_load_stops_it_first(world) -> None:
    from tests.doubles.launcher import Fault

    world.fail_with("snapshot", Fault.HANG)
    world.onboard("orders")
    world.until(lambda: world.jobs("snapshot")[0].state == "RUNNING")
    table = world.lake("orders")
    job = removal.start_removal(table, drop_data=True, actor="ann")
    world.until(lambda: Job.objects.get(pk=job.pk).state == "SUCCEEDED")
    assert world.jobs("snapshot")[0].state == "CANCELLED"


def test_a_removal_that_cannot_begin_says_why_and_holds_up_no_other(
    world, monkeypatch
) -> None:
    world.live("orders", "b")
    stuck, other = (
        removal.start_removal(world.lake(name), drop_data=True, actor="ann")
        for name in ("orders", "b")
    )
    take = leases.take_table
    failure: Exception = TransientError("the lake is read-only", hint="mount it")

    def read_only(table_id: int, *given: Any, **more: Any) -> Any:
        if table_id == int(stuck.subject_id):
            raise failure
        return take(table_id, *given, **more)

    monkeypatch.setattr(leases, "take_table", read_only)
    world.until(lambda: Job.objects.get(pk=other.pk).state == "SUCCEEDED")
    waiting = Job.objects.get(pk=stuck.pk)
    assert (waiting.state, waiting.reason) == ("QUEUED", str(failure))
    failure = TerminalError("the fence is damaged", hint="look at it")
    world.until(lambda: Job.objects.get(pk=stuck.pk).state == "FAILED")
    assert Job.objects.get(pk=stuck.pk).error_message == "the fence is damaged"


def test_only_lake_paths_are_ever_deleted(world, tmp_path) -> None:
    world.live("orders")
    table = world.lake("orders")
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("x")
    Table.objects.filter(pk=table.pk).update(path=str(precious))
    table.refresh_from_db()
    job = removal.start_removal(table, drop_data=True, actor="ann")
    world.until(lambda: Job.objects.get(pk=job.pk).state == "FAILED")
    assert (precious / "file").exists()


@pytest.mark.parametrize(
    ("verb", "state"),
    [
        (table_commands.start_sync, "APPROVED"),
        (table_commands.resume, "LIVE"),
        (compact_job.request_compaction, "APPROVED"),
    ],
)
def test_what_does_not_fit_the_state_is_refused_clearly(world, verb, state) -> None:
    world.onboard("orders")
    if state == "LIVE":
        world.until_live("orders")
    with pytest.raises(InvalidRequest) as caught:
        verb(world.lake("orders"), actor="ann")
    assert state in str(caught.value)
    assert caught.value.code == "not_now"
