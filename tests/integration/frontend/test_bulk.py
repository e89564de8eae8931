"""One action on many tables: a preview of each, then those that can be done."""

from __future__ import annotations

import re
from dataclasses import replace
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.access.grants import grant
from catalog.access.policy import Principal
from catalog.labels import Labels, label_tables
from catalog.models import AuditEntry, Table
from core.errors import InvalidRequest
from core.models import Job
from frontend.pages import PAGE_SIZE
from frontend.reading.tables import rows_in
from frontend.views import table_bulk
from ingest.models import Pipeline, TableHealth
from tests.integration.frontend.healths import WELL, show_health
from tests.integration.frontend.reading import html_of
from tests.long_tests import first_then_long


def address(action: str, tables) -> str:
    given = [("do", action), *(("table", table.pk) for table in tables)]
    return f"/tables/act?{urlencode(given)}"


def ask(client, action: str, tables, **more):
    given = {"do": action, "table": [table.pk for table in tables], **more}
    return client.post("/tables/act", given, follow=True)


def test_what_is_possible_is_done_and_the_rest_is_told(world, browse) -> None:
    client, lake = browse("root"), world.lake_tables
    wanted = [lake["orders"], lake["events"], lake["customers"]]
    shown = html_of(client.get(address("pause", wanted)))
    assert "Pause: 2 tables" in shown
    assert "not possible while it is: paused" in shown
    assert "Readers still see the last commit." in shown
    assert "Requested for 2 tables: pause." in html_of(ask(client, "pause", wanted))
    states = Table.objects.filter(pk__in=[table.pk for table in wanted])
    assert {table.status for table in states} == {"PAUSED"}
    assert "Tick at least one table" in html_of(ask(client, "sync", []))
    assert client.get("/tables/act?do=restore&table=1").status_code == 404


def test_how_many_are_refused_as_they_begin_is_told(world, browse, monkeypatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise InvalidRequest("the lake is away")

    monkeypatch.setattr(table_bulk, "start", refuse)
    both = [world.lake_tables["orders"], world.lake_tables["customers"]]
    shown = html_of(ask(browse("root"), "pause", both))
    assert "the lake is away (and 1 more)" in shown


def test_a_resync_of_many_wants_their_number_typed(world, browse) -> None:
    client, lake = browse("root"), world.lake_tables
    wanted = [lake["orders"], lake["legacy"]]
    shown = html_of(client.get(address("resync", wanted)))
    assert "Rows, about" in shown
    assert "The whole table is read from the source again" in shown
    assert shown.count("As above") == 2
    before = Job.objects.filter(kind="resync").count()
    assert "does not match" in html_of(ask(client, "resync", wanted))
    assert Job.objects.filter(kind="resync").count() == before
    ask(client, "resync", wanted, confirm="2")
    assert Job.objects.filter(kind="resync").count() == before + 2


@pytest.mark.parametrize(("data", "is_dropped"), [("", False), ("drop", True)])
def test_a_removal_of_many_says_what_goes_and_wants_their_number(
    world, browse, data, is_dropped
) -> None:
    client, lake = browse("root"), world.lake_tables
    wanted = [lake["orders"], lake["legacy"]]
    TableHealth.objects.filter(table__in=wanted).delete()
    show_health(lake["orders"], replace(WELL, log_files=7, log_bytes=3_000_000))
    shown = html_of(client.get(address("remove", wanted)))
    assert "into lake.shop.orders" in shown
    assert shown.count("If you keep the data: the table stays as it is") == 1
    assert "its files, 93 MB by the last check of the table" in shown
    assert "its files, which no check has counted yet" in shown
    shown = html_of(ask(client, "remove", wanted, data="drop"))
    assert "does not match" in shown
    chosen = r'value="drop"\s+checked'
    assert re.search(chosen, shown), "what was chosen stays"
    assert not Job.objects.filter(kind="remove").exists()
    shown = html_of(ask(client, "remove", wanted, data=data, confirm="2"))
    assert "Requested for 2 tables: remove." in shown
    jobs = Job.objects.filter(kind="remove")
    found = {(job.payload["table"], job.payload["drop_data"]) for job in jobs}
    assert found == {(table.pk, is_dropped) for table in wanted}


def test_rights_hold_for_each_table_without_a_statement_each(world, browse) -> None:
    client, lake = browse("ann"), world.lake_tables
    assert "table-bulk" not in html_of(client.get("/tables")), "nothing to operate"
    grant(principal="user:ann", privilege="operate", on="lake.shop.orders", by="root")
    assert "table-bulk" in html_of(client.get("/tables"))
    grant(principal="user:ann", privilege="discover", on="lake.shop", by="root")
    several = list(lake.values())
    shown = html_of(client.get(address("pause", several)))
    assert "Pause: 1 table " in shown
    assert "you lack the privilege operate" in shown
    ask(client, "pause", several)
    lake["customers"].refresh_from_db()
    assert lake["customers"].status == "SNAPSHOTTING"
    assert not AuditEntry.objects.filter(action="operate.denied").exists()

    def statements(tables) -> int:
        with CaptureQueriesContext(connection) as asked:
            client.get(address("resume", tables))
        return len(asked)

    assert statements(several) == statements(several[:1])


@pytest.mark.parametrize("action", first_then_long("compact", "resync", "remove"))
def test_a_preview_of_a_full_page_takes_the_statements_of_three_tables(
    world, browse, action
) -> None:
    """Of tables whose source was altered, too; no file of the lake is read."""
    client, first = browse("root"), world.lake_tables["orders"]
    many = [copied(first, number) for number in range(PAGE_SIZE)]
    client.get(address(action, many))

    def statements(tables) -> int:
        with CaptureQueriesContext(connection) as asked:
            shown = html_of(client.get(address(action, tables)))
        assert f": {len(tables)} tables" in shown
        is_told = "Columns gone at the source" in shown
        assert is_told is (action == "resync")
        return len(asked)

    assert statements(many[:3]) == statements(many)


def copied(table: Table, number: int) -> Table:
    """Another table like it; every second one has lost a column at its source."""
    pipeline = Pipeline.objects.select_related("source_table").get(lake_table=table)
    source, table = pipeline.source_table, Table.objects.get(pk=table.pk)
    columns = [column for column in source.columns.all() if column.name != "name"]
    for row in (source, table):
        row.pk, row.name, row.source_name = None, f"t{number}", f"t{number}"
    table.path = f"{table.path}-{number}"
    source.schema_fingerprint = "now" if number % 2 else "before"
    source.save()
    table.save()
    for column in columns:
        column.pk, column.table = None, source
        column.save()
    pipeline.pk, pipeline.source_table, pipeline.lake_table = None, source, table
    pipeline.plan = {**pipeline.plan, "fingerprint": "before"}
    pipeline.save()
    return table


def test_a_preview_of_compactions_says_what_each_table_has_waiting(
    world, browse
) -> None:
    client, lake = browse("root"), world.lake_tables
    both = [lake["orders"], lake["events"]]
    shown = html_of(client.get(address("compact", both)))
    assert "Left out" in shown
    assert "is gone or damaged" in shown
    TableHealth.objects.filter(table=lake["orders"]).delete()
    show_health(lake["orders"], replace(WELL, log_files=7, log_bytes=3_000_000))
    shown = html_of(client.get(address("compact", both)))
    assert "7 log files of 3 MB wait" in shown
    assert "No log file is there to merge" in shown
    assert shown.count("It runs in the driver that all jobs share") == 1


def test_heads_sort_the_list(world, browse) -> None:
    client = browse("root")
    page = html_of(client.get("/tables?q=o&sort=-rows"))
    assert 'aria-sort="descending"' in page
    assert "sort=status" in page
    assert "q=o" in page.partition("sort=status")[0][-40:]
    for sort in ("name", "status", "lag", "-commit", "-rows"):
        assert client.get(f"/tables?sort={sort}").status_code == 200


def test_what_can_be_no_row_is_not_ticked(world, browse) -> None:
    client = browse("root")
    for text in ("9" * 5000, "9" * 19, "²", "-1", ""):
        for place, field in (
            ("/tables/act", "table"),
            ("/tables/changes", "table"),
            ("/alerts/change", "alert"),
            (f"/onboardings/{world.proposed.pk}/many", "pipeline"),
        ):
            reply = client.post(place, {"do": "pause", field: [text]})
            assert reply.status_code in {200, 302}, (place, text)


def test_many_tables_get_an_owner_and_tags(world, browse):
    """What all of them have is shown; what only some have stays."""
    orders, events = (world.lake_tables[name] for name in ("orders", "events"))
    ids = [orders.pk, events.pk]
    label_tables(ids, Labels(owner="user:ann", tags=["both"]), by="root")
    label_tables(ids[:1], Labels(added=["one"]), by="root")
    client = browse("root")
    path = f"/tables/labels?table={orders.pk}&table={events.pk}"
    page = html_of(client.get(path))
    assert 'value="user:ann"' in page
    assert 'value="both"' in page
    form = {"table": ids, "owner": "group:bi", "tags": "New, daily"}
    done = client.post("/tables/labels", form, follow=True).content.decode()
    assert "Saved for 2 tables." in done
    for table, tags in ((orders, ["daily", "new", "one"]), (events, ["daily", "new"])):
        table.refresh_from_db()
        assert (table.owner, table.tags) == ("group:bi", tags)
    listed = html_of(client.get("/tables?tag=one"))
    assert f"/tables/{orders.pk}" in listed
    assert f"/tables/{events.pk}" not in listed
    found = html_of(client.get("/find?q=bi"))
    assert f"/tables/{events.pk}" in found
    assert "group:bi" in html_of(client.get(f"/tables/{events.pk}"))
    label_tables(ids[:1], Labels(added=["Straße"]), by="root")
    assert f"/tables/{orders.pk}" in html_of(client.get("/find?q=Straße"))
    form_of_one = f"/tables/labels?table={orders.pk}"
    assert form_of_one in html_of(client.get(f"/tables/{orders.pk}"))
    assert form_of_one not in html_of(browse("ann").get(f"/tables/{orders.pk}"))
    assert browse("ann").post("/tables/labels", form).status_code == 403
    refused = AuditEntry.objects.filter(action="manage.denied", actor="ann")
    assert refused.get().object == "lake.shop.orders"
    wrong = client.post("/tables/labels", form | {"owner": "user:nobody"})
    assert "no user" in wrong.content.decode()


def test_a_source_has_an_owner_and_tags(world, browse):
    client = browse("root")
    form = {"owner": "group:bi", "tags": "New, daily"}
    done = html_of(client.post("/sources/shop/labels", form, follow=True))
    assert "Owner and tags saved." in done
    assert 'href="/sources?owner=group%3Abi"' in done
    for query, is_there in (("tag=daily", True), ("tag=x", False), ("q=sho", True)):
        page = html_of(client.get(f"/sources?{query}"))
        assert ('href="/sources/shop"' in page) is is_there, query
    wrong = client.post("/sources/shop/labels", form | {"owner": "user:nobody"})
    assert "no user" in wrong.content.decode()


def test_who_manages_one_table_is_not_told_who_there_is(world, browse):
    """REST lists all users and groups to administrators alone."""
    Group.objects.create(name="secret-deal")
    orders = world.lake_tables["orders"]
    grant(principal="user:ann", privilege="manage", on="lake.shop.orders", by="root")
    path = f"/tables/labels?table={orders.pk}"
    assert "secret-deal" in html_of(browse("root").get(path))
    page = html_of(browse("ann").get(path))
    assert 'value="group:bi"' in page
    assert "secret-deal" not in page
    assert "user:eve" not in page


def test_rows_of_a_plan_are_of_the_tables_that_it_names(world):
    Table.objects.update(estimated_rows=7)
    with CaptureQueriesContext(connection) as asked:
        found = rows_in(Principal("root", is_admin=True), {"shop.orders", "x.events"})
    assert found == {"shop.orders": 7}
    assert not any("catalog_column" in one["sql"] for one in asked)
