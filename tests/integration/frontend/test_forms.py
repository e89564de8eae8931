"""What people send: logins, sources, plans, actions, tokens; with CSRF and denials."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from catalog.models import AccessRule, ApiToken, Datasource, Grant, Table
from core.models import Job
from frontend.views import sources
from ingest.models import Pipeline
from ingest.pipelines import sampling
from tests.integration.frontend.reading import html_of
from tests.integration.frontend.world import PASSWORD

SOURCE = {
    "kind": "postgresql",
    "name": "crm",
    "host": "127.0.0.1",
    "port": "5432",
    "database": "crm",
    "username": "reader",
    "password": "PASSWORD-CANARY",
    "tls": "off",
    "option_max_parallel_reads": "2",
    "option_max_rows_per_second": "0",
    "option_connect_timeout_seconds": "5",
    "option_statement_timeout_seconds": "0",
}


def test_log_in_and_out(world):
    client = Client()
    wrong = client.post("/login", {"username": "ann", "password": "nope"})
    assert wrong.status_code == 403
    assert b"is not right" in wrong.content
    right = client.post(
        "/login", {"username": "ann", "password": PASSWORD, "next": "/jobs"}
    )
    assert (right.status_code, right["Location"]) == (302, "/jobs")
    assert client.get("/jobs").status_code == 200
    client.post("/logout")
    assert client.get("/jobs").status_code == 302


@pytest.mark.parametrize(
    "to", ["https://evil.example/", "//evil.example", "javascript:x"]
)
def test_a_login_never_leads_away(world, to):
    data = {"username": "ann", "password": PASSWORD, "next": to}
    assert Client().post("/login", data)["Location"] == "/"


def test_a_post_without_csrf_token_is_refused(world):
    client = Client(enforce_csrf_checks=True)
    assert client.post("/login", {"username": "a", "password": "b"}).status_code == 403


def test_the_form_follows_the_kind(world, browse):
    client = browse("root")
    shown = client.get("/sources/new", {"kind": "mariadb"}).content.decode()
    assert 'value="3306"' in shown
    assert "GRANT SELECT ON `shop`.* TO &#x27;sluice&#x27;@&#x27;%&#x27;;" in shown
    assert 'href="?kind=mysql"' in shown
    assert "oracle" not in shown
    first = client.get("/sources/new").content.decode()
    assert 'value="5432"' in first
    assert "GRANT CONNECT ON DATABASE" in first
    data = {**SOURCE, "kind": "mysql", "port": "3306", "database": "", "then": "save"}
    assert client.post("/sources/new", data).status_code == 302
    assert Datasource.objects.get(name="crm").kind == "mysql"
    refused = client.post("/sources/new", {**SOURCE, "name": "b", "database": ""})
    assert refused.status_code == 422


def test_a_source_is_added_and_tested(world, browse, redis_url):
    client = browse("root")
    response = client.post("/sources/new", {**SOURCE, "then": "save"}, follow=True)
    assert response.redirect_chain[-1][0] == "/sources/crm"
    assert "PASSWORD-CANARY" not in response.content.decode()
    assert Datasource.objects.get(name="crm").username == "reader"
    assert Job.objects.filter(kind="test", subject="crm").exists()
    edit = client.get("/sources/crm/edit").content.decode()
    assert "PASSWORD-CANARY" not in edit
    assert "127.0.0.1" in edit


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("name", "lake", "reserved"),
        ("name", "Not Good", "for example shop_copy"),
        ("host", "169.254.169.254", ""),
        ("host", "", "required"),
        ("port", "70000", "65535"),
        ("option_max_parallel_reads", "99", "32"),
    ],
)
def test_a_wrong_field_is_named(world, browse, field, value, said):
    response = browse("root").post("/sources/new", {**SOURCE, field: value})
    text = response.content.decode()
    assert response.status_code == 422
    assert said in text
    assert "PASSWORD-CANARY" not in text
    assert not Datasource.objects.filter(name="crm").exists()


def test_when_discovery_ends_the_page_is_read_again(world, browse):
    client = browse("root")
    Job.objects.filter(kind="test").delete()
    job = Job.objects.create(
        kind="discover",
        subject="shop",
        subject_id=str(world.source.pk),
        state="RUNNING",
    )
    moving = client.get("/sources/shop/work")
    assert "HX-Refresh" not in moving
    assert b"hx-trigger" in moving.content
    Job.objects.filter(pk=job.pk).update(state="SUCCEEDED")
    assert client.get("/sources/shop/work")["HX-Refresh"] == "true"


def test_tables_are_those_of_the_discovery_that_the_page_shows(
    world, browse, monkeypatch
):
    """It ends while the page is made: nothing reads the page again then."""
    look = sources.newest_on_source

    def ends_now(*about):
        table = Table(database=world.source.databases.get(), kind=Table.SOURCE)
        table.name = table.source_name = "just_found"
        table.save()
        return look(*about)

    Job.objects.create(
        kind="discover",
        subject="shop",
        subject_id=str(world.source.pk),
        state="SUCCEEDED",
    )
    monkeypatch.setattr(sources, "newest_on_source", ends_now)
    assert b"just_found" in browse("root").get("/sources/shop").content


def test_only_administrators_add_sources(world, browse):
    assert browse("ann").post("/sources/new", SOURCE).status_code == 403


def test_deleting_a_source_asks_for_its_name(world, browse):
    client = browse("root")
    Datasource.objects.create(name="old", kind="postgresql", host="h", port=1)
    assert client.post("/sources/old/delete", {"confirm": "o"}).status_code == 200
    assert Datasource.objects.filter(name="old").exists()
    client.post("/sources/old/delete", {"confirm": "old"})
    assert not Datasource.objects.filter(name="old").exists()
    client.post("/sources/shop/delete", {"confirm": "shop"})
    assert Datasource.objects.filter(name="shop").exists()


def test_tables_are_picked_planned_chosen_and_approved(world, browse, redis_url):
    from ingest.models import Onboarding, Pipeline

    Pipeline.objects.filter(onboarding=world.proposed).delete()
    client = browse("root")
    nothing = client.post("/sources/shop/onboard", {"capture": "timestamp"})
    assert b"Choose at least one table" in nothing.content
    data = {"capture": "timestamp", "every_seconds": "30", "selected": "public.free"}
    response = client.post("/sources/shop/onboard", data)
    pk = Onboarding.objects.order_by("-created_at").first().pk
    assert response["Location"] == reverse("frontend:onboarding", args=[pk])
    plan = client.get(response["Location"]).content.decode()
    assert "the primary key" in plan
    assert "updated_at" in plan
    pipeline = Pipeline.objects.get(onboarding=pk)
    choose = reverse("frontend:onboarding-choose", args=[pk, pipeline.pk])
    client.post(choose, {"key_kind": "", "buckets": "7", "exclude_columns": ["name"]})
    pipeline.refresh_from_db()
    assert pipeline.plan["proposals"]["buckets"]["value"] == 7
    assert pipeline.plan["excluded"] == ["name"]
    refused = client.post(choose, {"key_kind": "columns", "key_columns": "nope"})
    assert b"has no column" in refused.content
    client.post(reverse("frontend:onboarding-approve", args=[pk]))
    pipeline.refresh_from_db()
    assert pipeline.state in {"APPROVED", "SNAPSHOTTING"}
    assert Job.objects.filter(subject_id=str(pipeline.lake_table_id)).exists()


def test_all_tables_of_a_search_are_picked(world, browse, redis_url):
    from ingest.models import Onboarding, Pipeline

    Pipeline.objects.filter(onboarding=world.proposed).delete()
    data = {"capture": "snapshot", "all_matching": "1", "matching_q": "fre"}
    browse("root").post("/sources/shop/onboard", data)
    newest = Onboarding.objects.order_by("-created_at").first()
    assert newest.request["include"] == ["public.free"]


def test_the_list_of_tables_comes_in_stretches_and_counts(world, browse):
    root = browse("root")
    everything = root.get("/sources/shop/onboard/rows?offset=0&count=1").json()
    assert (everything["total"], everything["free"]) == (8, 2)
    orders = next(one for one in everything["items"] if one["name"] == "orders")
    assert orders["carried"] == "shop.orders"
    assert orders["rows"] == "120,000"

    def found(q: str) -> list[str]:
        answer = root.get("/sources/shop/onboard/rows", {"q": q}).json()
        return sorted(one["name"] for one in answer["items"])

    assert found("e*s") == ["events"]
    assert found("public.*e*s") == ["customers", "events", "orders"]
    assert found("other.*") == []
    assert found("50%*") == []
    assert root.get("/sources/shop/onboard/rows?offset=7").json()["items"][1:] == []
    assert browse("ann").get("/sources/shop/onboard/rows").status_code == 403
    assert browse("eve").get("/sources/shop/onboard/rows").status_code == 404


def test_all_tables_of_a_search_but_some(world, browse, redis_url):
    from ingest.models import Onboarding, Pipeline

    Pipeline.objects.all().delete()
    data = {
        "capture": "timestamp",
        "cron": "30 2 * * MON-FRI",
        "timezone": "Europe/Berlin",
        "all_matching": "1",
        "matching_q": "*e*s",
        "unselected": "public.events\npublic.nothing",
    }
    browse("root").post("/sources/shop/onboard", data)
    newest = Onboarding.objects.order_by("-created_at").first()
    assert newest.request["include"] == ["public.customers", "public.orders"]
    schedule = {"cron": "30 2 * * MON-FRI", "timezone": "Europe/Berlin"}
    assert newest.request["schedule"] == schedule


def test_a_schedule_is_told_in_words(world, browse):
    ann = browse("ann")
    for asked, said in (
        ({"every_seconds": "60"}, "Every minute. Next:"),
        ({"cron": "30 2 * * *", "timezone": "Europe/Berlin"}, "02:30"),
        ({"every_seconds": "5", "cron": "61 * * * *"}, "not possible"),
        ({"cron": "0 0 * * *", "timezone": "Mars/Base"}, "no IANA time zone"),
        ({"every_seconds": "-3"}, "whole number"),
        ({}, "otherwise manual"),
    ):
        assert said in html_of(ann.get("/schedule", asked)), asked


def test_a_table_that_runs_alone_says_why_and_how_to_undo_it(world, browse, redis_url):
    table = world.lake_tables["orders"]
    client = browse("root")
    page = client.get(f"/tables/{table.pk}").content.decode()
    assert "Runs alone" not in page
    assert "Use the shared driver" not in page
    pipelines = Pipeline.objects.filter(lake_table=table)
    pipelines.update(alone_reason="out of memory while reading wide rows")
    page = client.get(f"/tables/{table.pk}").content.decode()
    assert "Runs in a dedicated driver: out of memory while reading wide rows." in page
    assert "choose Use the shared driver" in page
    client.post(f"/tables/{table.pk}/share-driver")
    assert pipelines.get().alone_reason == ""


def test_pause_and_resume(world, browse, redis_url):
    table = world.lake_tables["orders"]
    client = browse("root")
    client.post(f"/tables/{table.pk}/pause")
    table.refresh_from_db()
    assert table.status == "PAUSED"
    assert "Resume" in client.get(f"/tables/{table.pk}").content.decode()


def test_a_dangerous_action_asks_for_the_name(world, browse, redis_url):
    table = world.lake_tables["orders"]
    client = browse("root")
    said = client.post(f"/tables/{table.pk}/resync", {"confirm": "order"})
    assert b"does not match" in said.content
    assert not Job.objects.filter(kind="resync").exists()
    Job.objects.filter(subject_id=str(table.pk)).delete()
    client.post(f"/tables/{table.pk}/resync", {"confirm": "orders"})
    assert Job.objects.filter(kind="resync", subject_id=str(table.pk)).exists()


def test_who_may_only_look_may_not_act(world, browse):
    table = world.lake_tables["orders"]
    ann = browse("ann")
    assert "Pause" not in ann.get(f"/tables/{table.pk}").content.decode()
    assert ann.post(f"/tables/{table.pk}/pause").status_code == 403
    assert ann.post(f"/jobs/{world.jobs['queued'].pk}/cancel").status_code == 403
    assert ann.post("/sources/shop/discover").status_code == 403
    assert browse("eve").post(f"/tables/{table.pk}/pause").status_code == 404


def test_a_waiting_job_is_cancelled(world, browse, redis_url):
    job = world.jobs["queued"]
    browse("root").post(f"/jobs/{job.pk}/cancel")
    job.refresh_from_db()
    assert job.state == "CANCELLED"


def test_a_token_is_shown_once(world, browse):
    client = browse("ann")
    first = client.post("/tokens", {"name": "bi", "expires_in_days": "30"})
    text = first.content.decode()
    token = ApiToken.objects.get(name="bi")
    assert f"slt_{token.key_id}_" in text
    shown = text.split('id="new-token" tabindex="0">')[1].split("<")[0]
    assert shown not in client.get("/tokens").content.decode()
    browse("eve").post(f"/tokens/{token.pk}/delete")
    assert ApiToken.objects.filter(pk=token.pk).exists()
    client.post(f"/tokens/{token.pk}/delete")
    assert not ApiToken.objects.filter(pk=token.pk).exists()


def test_users_and_grants(world, browse):
    client = browse("root")
    client.post(
        "/users",
        {"name": "bob", "password": "a long enough phrase", "groups": "bi, ops"},
    )
    text = client.get("/users/bob").content.decode()
    assert "group bi" in text
    weak = client.post("/users", {"name": "tim", "password": "short"})
    assert b"too weak" in weak.content
    client.post(
        "/grants", {"principal": "user:bob", "privilege": "select", "on": "lake.shop"}
    )
    row = Grant.objects.get(principal_name="bob")
    assert "customers" in browse("bob").get("/tables").content.decode()
    client.post(f"/grants/{row.pk}/revoke")
    assert not Grant.objects.filter(pk=row.pk).exists()
    unknown = client.post(
        "/grants", {"principal": "user:nobody", "privilege": "select", "on": "lake"}
    )
    assert "there is no user" in unknown.content.decode().lower()
    client.post("/users/bob", {"groups": "bi", "is_active": ""})
    assert browse("root").get("/users/bob").status_code == 200


def test_rules(world, browse, monkeypatch):
    client = browse("root")
    given = {
        "what": "row_filter",
        "on": "lake.shop.orders",
        "applies_to": "group:bi, user:ann",
        "excepted": "user:root",
        "expression": "id < 3",
    }
    assert client.post("/rules", given).status_code == 302
    row = AccessRule.objects.get()
    assert (row.applies_to, row.excepted) == (["group:bi", "user:ann"], ["user:root"])
    assert "id &lt; 3" in client.get("/rules?q=orders").content.decode()
    wrong = client.post("/rules", {**given, "what": "redact"})
    assert "does not name a column" in wrong.content.decode()
    for on in ("lake.shop.ordres", "lake.shop.orders.nope"):
        what = "redact" if on.count(".") == 3 else "row_filter"
        text = client.post("/rules", {**given, "what": what, "on": on}).content.decode()
        assert " has no " in text, on
        assert "allow_unknown" not in text, on

    asked = {"who": "user:ann", "on": "lake.shop.orders"}
    why = client.get("/grants/effective", asked).content.decode()
    assert "leaves only rows with <code>id &lt; 3</code>" in why
    width = world.lake_tables["orders"].columns.count()
    monkeypatch.setattr(
        sampling.registered, "query", lambda user, sql, limit: [[user] * width]
    )
    assert ">ann<" in client.get("/rules/seen", asked).content.decode()

    client.post(f"/rules/{row.pk}/remove")
    assert not AccessRule.objects.exists()
