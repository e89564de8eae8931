"""The table's page shows what changed at the source, and what approving it does."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from catalog.models import Column, Table
from ingest.models import Pipeline
from ingest.pipelines import gone_shards, shard_joins
from ingest.pipelines.onboarding import start_onboarding
from ingest.pipelines.requests import parse_request
from tests.integration.frontend.world import plan_of
from tests.integration.ingest.world import ANN, make_tables

pytestmark = pytest.mark.django_db


@pytest.fixture
def changed(world: Any) -> Any:
    """orders lost a column at its source, and an earlier one was followed in part."""
    source = world.source_tables["orders"]
    Column.objects.filter(table=source, name="amount").delete()
    Table.objects.filter(pk=source.pk).update(schema_fingerprint="now")
    note = {"state": "partial", "from": "2026-01-02T03:04:05Z"}
    Pipeline.objects.filter(source_table=source).update(
        plan=plan_of("orders") | {"fingerprint": "then"}, drift={"name": note}
    )
    return world.lake_tables["orders"]


def page(client: Any, name: str, *given: Any) -> str:
    reply = client.get(reverse(f"frontend:{name}", args=given))
    assert reply.status_code == 200
    return str(reply.content.decode())


def test_who_may_decide_gets_the_change_its_effects_and_a_button(
    changed: Table, browse: Any
) -> None:
    shown = page(browse("root"), "table", changed.pk)
    assert "column &#x27;amount&#x27; (decimal(12,2)) was removed" in shown
    assert "Column amount and its values leave the lake table" in shown
    assert 'id="approve-change"' in shown
    assert "Decide…" in shown
    assert "Column name counts from 2026-01-02T03:04:05Z" in shown
    seen = page(browse("ann"), "table", changed.pk)
    assert "was removed" in seen
    assert 'id="approve-change"' not in seen
    asked = page(browse("root"), "table-action", changed.pk, "approve-schema-change")
    assert "The whole table is read from the source again" in asked


def test_a_table_that_follows_its_source_offers_nothing(
    world: Any, browse: Any
) -> None:
    shown = page(browse("root"), "table", world.lake_tables["orders"].pk)
    assert "approve" not in shown


def test_a_resync_that_is_needed_is_told_once(world: Any, browse: Any) -> None:
    table, client = world.lake_tables["orders"], browse("root")
    why = "gone at the source; resync it"
    note = {"state": "needed", "changes": [], "why": why}
    Pipeline.objects.filter(lake_table=table).update(drift={"": note})
    for reason in ("paused by ann", f"cancelled: {why}"):
        Table.objects.filter(pk=table.pk).update(status="PAUSED", status_reason=reason)
        shown = page(client, "table", table.pk)
        assert shown.lower().count(why) == 1


def test_the_whole_difference_is_shown_and_asked_for_in_amber(
    changed: Table, world: Any, browse: Any
) -> None:
    """What is followed comes along, so it is shown before, too."""
    source = world.source_tables["orders"]
    Column.objects.create(
        table=source, position=9, name="level", source_name="level",
        source_type="integer", type="int",
    )  # fmt: skip
    Table.objects.filter(pk=changed.pk).update(status="PAUSED")
    Pipeline.objects.filter(lake_table=changed).update(state="PAUSED")
    shown = page(browse("root"), "table", changed.pk)
    diff = shown.partition('class="diff"')[2].partition("</ul>")[0]
    assert '<li class="is-removed">' in diff
    assert '<li class="is-added">' in diff
    assert "level" in diff
    assert 'class="badge is-warn" data-state="UNDECIDED"' in shown
    assert shown.index("/resume") > shown.index('id="more-actions"')
    for address in ("/", "/tables", "/health"):
        listed = browse("root").get(address).content.decode()
        assert 'data-state="UNDECIDED"' in listed, address
        assert 'data-state="PAUSED"' not in listed.partition("orders")[2][:900]
    asked = page(browse("root"), "table-action", changed.pk, "approve-schema-change")
    assert "amount" in asked
    assert "level" in asked


@pytest.mark.parametrize(
    "listed",
    ["/tables?status=", "/tables?q=or&status=", "/sources/shop/pipeline?status="],
)
def test_one_that_needs_a_decision_is_not_counted_as_paused(
    changed: Table, browse: Any, listed: str
) -> None:
    """Another one is paused by a person."""
    Pipeline.objects.filter(lake_table=changed).update(state="PAUSED")
    Table.objects.filter(pk=changed.pk).update(status="PAUSED")
    client, row = browse("root"), f'href="/tables/{changed.pk}"'
    for address in ("/", "/sources/shop/pipeline"):
        shown = " ".join(client.get(address).content.decode().split())
        for state in ("PAUSED", "UNDECIDED"):
            assert f"?status={state}#" in shown, address
    assert row in client.get(f"{listed}UNDECIDED").content.decode()
    assert row not in client.get(f"{listed}PAUSED").content.decode()


def test_columns_are_set_aside_from_the_page(changed: Table, browse: Any) -> None:
    client = browse("root")
    address = reverse(
        "frontend:table-action", args=[changed.pk, "approve-schema-change"]
    )
    asked = client.get(address, {"keep_null": ["amount"]}).content.decode()
    assert 'name="keep_null"' in asked
    assert 'name="leave_out"' not in asked
    assert "Column amount stays in the lake table" in asked
    assert client.post(address, {"keep_null": ["amount"]}).status_code == 302
    plan = Pipeline.objects.get(lake_table=changed).plan
    (create,) = (s for s in plan["steps"] if s["step"] == "CreateTable")
    assert [c["name"] for c in create["kept"]] == ["amount"]
    shown = page(client, "table", changed.pk)
    assert 'id="kept-columns"' in shown


def test_several_tables_are_approved_at_once(changed: Table, browse: Any) -> None:
    client = browse("root")
    shown = page(client, "schema-changes")
    assert f'value="{changed.pk}"' in shown
    asked = {"table": [changed.pk], "keep_null": "1"}
    reply = client.post(reverse("frontend:schema-changes"), asked, follow=True)
    assert "1 table goes on" in reply.content.decode()
    assert "Nothing waits for a decision" in reply.content.decode()


def test_the_list_costs_no_statements_for_each_table(
    changed: Table, world: Any, browse: Any, django_assert_max_num_queries: Any
) -> None:
    client = browse("root")
    with CaptureQueriesContext(connection) as of_one:
        page(client, "schema-changes")
    for name in ("customers", "events", "legacy"):
        source = world.source_tables[name]
        Column.objects.filter(table=source, name="amount").delete()
        Table.objects.filter(pk=source.pk).update(schema_fingerprint="now")
        Pipeline.objects.filter(source_table=source).update(
            plan=plan_of(name) | {"fingerprint": "then"}
        )
    with django_assert_max_num_queries(len(of_one)):
        shown = page(client, "schema-changes")
    assert shown.count('name="table"') == 4


def sharded(world: Any) -> Pipeline:
    """Of two tables, live."""
    for name in ("shop_1", "shop_2"):
        make_tables(world.source, ["t"], database=name)
    asked = {
        "datasource": "shop",
        "include": ["shop_*.t"],
        "capture": "snapshot",
        "shards": {"column": "shop"},
        "approve": True,
    }
    row = start_onboarding(parse_request(asked), principal=ANN).tables.get()
    Pipeline.objects.filter(pk=row.pk).update(state="LIVE")
    Table.objects.filter(pk=row.lake_table_id).update(status="LIVE", is_queryable=True)
    return row


def test_rows_of_a_shard_that_is_not_read_are_missing_openly(
    world: Any, browse: Any
) -> None:
    row = sharded(world)
    shown = page(browse("root"), "table", row.lake_table_id)
    assert 'id="shards_' not in shown
    make_tables(world.source, ["t"], database="shop_3")
    row.refresh_from_db()
    shown = page(browse("root"), "table", row.lake_table_id)
    assert "that came at the source and are not read: shop_3.t." in shown
    shard_joins.take_in(row)
    shown = page(browse("root"), "table", row.lake_table_id)
    assert "are not read yet, so their rows are missing in the lake: shop_3.t." in shown
    where = reverse("frontend:table-action", args=[row.lake_table_id, "join-shards"])
    assert where in shown
    asked_for = page(browse("root"), "table-action", row.lake_table_id, "join-shards")
    assert "1 table of the source is read, and no other: shop_3.t" in asked_for


def test_a_shard_that_is_gone_waits_for_a_decision_on_the_page(
    world: Any, browse: Any
) -> None:
    row = sharded(world)
    gone_shards.note_gone(row, ["shop_1.t"])
    shown = page(browse("root"), "table", row.lake_table_id)
    assert "whose rows are in the lake: shop_1.t. The others go on." in shown
    where = reverse("frontend:table-action", args=[row.lake_table_id, "leave-shards"])
    assert where in shown
    asked = page(browse("root"), "table-action", row.lake_table_id, "leave-shards")
    assert "their rows are here still: shop_1.t" in asked
    assert browse("root").post(where, {"rows": "delete"}).status_code == 302
    row.refresh_from_db()
    assert gone_shards.undecided(row) == ()
    shown = page(browse("root"), "table", row.lake_table_id)
    assert 'id="shards_' not in shown
