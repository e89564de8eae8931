"""REST of onboardings, jobs and table verbs: bodies, permissions, statements."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.models import Table
from ingest.actions.registry import pipeline_offering
from ingest.api import replies
from ingest.api.removals import RemovalOfOne
from ingest.models import Onboarding, Pipeline
from tests.doubles.launcher import Fault
from tests.integration.catalog.asking import problem
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.integration.catalog.test_endpoints import compare
from tests.integration.ingest.world import COLUMNS, make_tables

pytestmark = pytest.mark.django_db

BODY = {"datasource": "shop", "include": ["public.*"], "capture": "timestamp"}


def grant(admin, who: str, privilege: str, on: str) -> None:
    made = admin("POST", "grants", {"principal": who, "privilege": privilege, "on": on})
    assert made.status_code == 201, made.content


def test_the_way_over_rest(world, admin) -> None:
    make_tables(world.source, ["orders"])
    dry = admin("POST", "onboardings", {**BODY, "dry_run": True})
    assert dry.status_code == 200
    assert dry.json()["tables"][0]["plan"]["steps"][0]["step"] == "CreateTable"
    made = admin("POST", "onboardings", BODY)
    assert made.status_code == 202
    one = made.json()
    assert made["Location"] == f"/api/v1/onboardings/{one['id']}"
    assert one["tables"][0]["status"] == "PROPOSED"
    done = admin("POST", f"onboardings/{one['id']}:approve")
    assert done.status_code == 202
    assert done.json()["jobs"][0]["kind"] == "snapshot"
    assert done.json()["counts"] == {"APPROVED": 1}
    world.until_live("orders")
    table = admin("GET", "tables?name=lake.shop.orders").json()
    table = table.get("items", [table])[0]
    assert table["status"] == "LIVE"
    assert table["onboarding"] == one["id"]
    source = admin("GET", "tables?name=shop.public.orders").json()["items"][0]
    assert table["capture"] == source["capture"] == "timestamp"
    assert table["last_commit"]["instant"]
    job = admin("POST", f"tables/{table['id']}:sync")
    assert job.status_code == 202
    assert {"id", "kind", "state", "progress", "error", "attempts"} <= set(job.json())
    commits = admin("GET", f"tables/{table['id']}/commits?page_size=1").json()
    assert len(commits["items"]) == 1
    assert commits["next_page_token"]
    logs = admin("GET", f"jobs/{done.json()['jobs'][0]['id']}/logs?direction=back")
    assert logs.json()["items"][0]["message"] == "begun"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({**BODY, "schedule": {"cron": "* * *"}}, 400, "invalid_request"),
        ({**BODY, "capture": "x"}, 400, "invalid_request"),
        ({**BODY, "datasource": "nowhere"}, 404, "datasource_not_found"),
        ({**BODY, "include": ["public.nothing"]}, 400, "unknown_table"),
    ],
)
def test_problems(world, admin, body, status, code) -> None:
    reply = admin("POST", "onboardings", body)
    assert (reply.status_code, reply.json()["code"]) == (status, code)


def test_strangers_see_nothing_and_helpers_may_operate(world, admin, person) -> None:
    world.live("orders")
    table = world.lake("orders").pk
    job = world.jobs("snapshot")[0]
    ann = person("ann2")
    for method, path in [
        ("GET", f"jobs/{job.pk}"),
        ("GET", f"jobs/{job.pk}/logs"),
        ("POST", f"jobs/{job.pk}:cancel"),
        ("POST", f"tables/{table}:sync"),
        ("GET", f"tables/{table}/sample"),
        ("GET", f"tables/{table}/commits"),
        ("POST", "onboardings"),
        ("GET", f"onboardings/{world.pipeline('orders').onboarding_id}"),
    ]:
        reply = ann(method, path, BODY if path == "onboardings" else None)
        assert reply.status_code == 404, (path, reply.content)
    assert ann("GET", "jobs").json()["items"] == []
    assert ann("GET", "onboardings").json()["items"] == []
    grant(admin, "user:ann2", "operate", "lake.shop.orders")
    assert ann("POST", f"tables/{table}:sync").status_code == 202
    assert ann("GET", f"jobs/{job.pk}").status_code == 200
    assert ann("GET", f"tables/{table}/sample").status_code == 403
    assert ann("POST", f"tables/{table}:remove", {"data": "drop"}).status_code == 403


def test_several_are_removed_each_by_itself(world, admin, ann) -> None:
    world.onboard("orders", "items")
    world.until_live("orders", "items")
    tables = [world.lake(name).pk for name in ("orders", "items")]
    grant(admin, "user:ann", "manage", "lake.shop.orders")

    def removed(*of: int, **more) -> list:
        body = {"tables": [*of, *of], "data": "drop", **more}
        reply = admin("POST", "tables:remove", body)
        assert reply.status_code == 200, reply.content
        items = reply.json()["items"]
        compare(RemovalOfOne(), items[0])
        assert [one["table"] for one in items] == [*of]
        return items

    previewed = removed(*tables, dry_run=True)
    for one, name in zip(previewed, ("orders", "items"), strict=True):
        assert one["will"][0] == f"Stop syncing public.{name} into lake.shop.{name}"
        assert one["will"][2].startswith("If you delete it: its files")
    refused = ann("POST", "tables:remove", {"tables": tables, "data": "drop"})
    assert refused.status_code == 404
    assert world.jobs("remove") == []
    (first,) = removed(tables[0])
    done, more = removed(*tables)
    assert (first["error"], more["error"]) == (None, None)
    assert done["job"] is None
    assert done["error"]["message"] == "cannot remove lake.shop.orders: it is REMOVING"
    assert [job.payload["drop_data"] for job in world.jobs("remove")] == [True, True]
    for one in removed(*tables, dry_run=True):
        assert (one["will"], one["error"]["code"]) == ([], "not_now")
    world.until(lambda: not Table.objects.filter(pk__in=tables).exists())


def test_remove_previews_then_drops(world, admin) -> None:
    world.live("orders")
    table = world.lake("orders").pk
    seen = admin("POST", f"tables/{table}:remove", {"data": "drop", "dry_run": True})
    assert seen.status_code == 200
    assert seen.json()["files"] > 0
    job = admin("POST", f"tables/{table}:remove", {"data": "drop"})
    assert job.status_code == 202
    world.until(lambda: admin("GET", f"tables/{table}").status_code == 404)


def test_cancel_and_retry(world, admin) -> None:
    world.fail_with("snapshot", Fault.HANG)
    world.onboard("orders")
    world.until(lambda: world.jobs("snapshot")[0].state == "RUNNING")
    job = world.jobs("snapshot")[0].pk
    assert admin("POST", f"jobs/{job}:cancel").json()["state"] == "CANCELLING"
    world.until(lambda: world.jobs("snapshot")[0].state == "CANCELLED")
    assert admin("POST", f"jobs/{job}:cancel").status_code == 409
    assert admin("POST", f"jobs/{job}:retry").status_code == 202
    world.until_live("orders")


def test_pause_and_resume(world, admin) -> None:
    world.live("orders")
    table = world.lake("orders").pk
    assert admin("POST", f"tables/{table}:pause").json()["status"] == "PAUSED"
    assert admin("POST", f"tables/{table}:sync").status_code == 400
    assert admin("POST", f"tables/{table}:resume").json()["status"] == "CATCHING_UP"
    world.until_live("orders")


def test_a_repeated_request_is_one_onboarding(world, admin) -> None:
    make_tables(world.source, ["orders"])
    first = admin("POST", "onboardings", BODY, Idempotency_Key="k1")
    again = admin("POST", "onboardings", BODY, Idempotency_Key="k1")
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json()["id"] == again.json()["id"]


def test_lists_cost_few_statements(world, admin) -> None:
    world.onboard(*[f"t{n}" for n in range(12)])
    for path in ("jobs", "onboardings", f"jobs/{world.jobs('snapshot')[0].pk}"):
        admin("GET", path)
        with CaptureQueriesContext(connection) as seen:
            assert admin("GET", path).status_code == 200
        # the token and its user's groups cost two of them; a single job tells its
        # events, and since when its driver is away
        most = 5 if "/" in path else 4
        assert len(seen) <= most, [str(q["sql"])[:90] for q in seen]


def test_log_pages_walk_back_and_forward(world, admin) -> None:
    from core.models import JobLog

    world.onboard("orders")
    job = world.jobs("snapshot")[0]
    JobLog.objects.bulk_create(
        [JobLog(job=job, level="info", message=f"{n}") for n in range(25)]
    )
    path = f"jobs/{job.pk}/logs?page_size=10&direction=back"
    last = admin("GET", path).json()
    assert [i["message"] for i in last["items"]] == [f"{n}" for n in range(15, 25)]
    older = admin("GET", f"{path}&cursor={last['older']}").json()
    assert [i["message"] for i in older["items"]] == [f"{n}" for n in range(5, 15)]
    newer = admin("GET", f"jobs/{job.pk}/logs?cursor={older['newer']}").json()
    assert [i["message"] for i in newer["items"]] == [f"{n}" for n in range(15, 25)]


@pytest.mark.parametrize(
    ("direction", "expected"),
    [("forward", [["a", "b"], ["c"]]), ("back", [["b", "c"], ["a"]])],
)
def test_log_pages_go_on_by_their_token_as_every_list_does(
    world, admin, direction, expected
) -> None:
    from core.models import JobLog

    world.onboard("orders")
    job = world.jobs("snapshot")[0]
    JobLog.objects.bulk_create(
        [JobLog(job=job, level="info", message=message) for message in "abc"]
    )
    path = f"jobs/{job.pk}/logs?page_size=2&direction={direction}"
    first = admin("GET", path).json()
    rest = admin("GET", f"{path}&page_token={first['next_page_token']}").json()
    found = [[line["message"] for line in page["items"]] for page in (first, rest)]
    assert found == expected
    assert rest["next_page_token"] is None


def test_all_mistakes_of_a_request_are_told_at_once(world, admin) -> None:
    body = {
        "datasource": 3,
        "include": ["public.*", 7],
        "capture": "guess",
        "exclude": None,
        "dry_run": "yes",
        "tables": {"a/b": {"buckets": "4", "partition_by": None}},
    }
    refused = admin("POST", "onboardings", body)
    problem(refused, 400, "invalid_request")
    assert {one["pointer"] for one in refused.json()["errors"]} == {
        "/datasource",
        "/include/1",
        "/capture",
        "/dry_run",
        "/tables/a~1b/buckets",
    }


@pytest.mark.parametrize(
    ("part", "pointer"),
    [
        ({"surprise": 1}, "/surprise"),
        ({"tables": {"a/b": {"kee": 1}}}, "/tables/a~1b/kee"),
        ({"defaults": {"lake": "x"}}, "/defaults/lake"),
    ],
)
def test_a_member_that_is_not_known_is_named(world, admin, part, pointer) -> None:
    refused = admin("POST", "onboardings", {**BODY, **part})
    problem(refused, 400, "unknown_field")
    assert [one["pointer"] for one in refused.json()["errors"]] == [pointer]


def test_a_source_says_by_how_many_tables_it_is_in_use(world, admin) -> None:
    tables = make_tables(world.source, [f"t{number}" for number in range(250)])
    asked = Onboarding.objects.create(
        datasource=world.source, request={}, requested_by="root"
    )
    Pipeline.objects.bulk_create(
        Pipeline(onboarding=asked, source_table=table, state="PROPOSED")
        for table in tables
    )
    refused = admin("DELETE", "datasources/shop").json()
    assert refused["code"] == "in_use"
    assert "250" in refused["detail"]
    assert f"remove them first: {tables[0]}, " in refused["hint"]


def test_a_dry_run_shows_so_many_tables_and_first_what_needs_a_decision(
    world, admin, monkeypatch
) -> None:
    monkeypatch.setattr(replies, "MOST_DRAFTED", 1)
    without_key = [(*column[:4], 0) for column in COLUMNS]
    make_tables(world.source, ["orders"])
    make_tables(world.source, ["unkeyed"], without_key)
    seen = admin("POST", "onboardings", {**BODY, "dry_run": True}).json()
    assert [table["source"] for table in seen["tables"]] == ["public.unkeyed"]
    assert seen["left_off"] == 1


def test_a_table_says_what_can_be_requested_now_and_why_not(world, admin, ann) -> None:
    def actions(who=admin) -> dict[str, str | None]:
        """By name, why it is not possible; None when it is."""
        body = who("GET", f"tables/{table.pk}").json()
        found = body["table_actions"]
        assert all(each["is_possible"] is not bool(each["reason"]) for each in found)
        return {each["name"]: each["reason"] or None for each in found}

    world.onboard("orders")
    world.until_live("orders")
    table = world.lake("orders")
    config = admin("GET", "config").json()["table_actions"]
    now = actions()
    assert list(now) == [each["name"] for each in config]
    assert now["sync"] is now["remove"] is now["pause"] is None
    assert now["resume"] == "The table is LIVE: nothing is to be resumed."
    assert now["share-driver"] == "This table has nothing that it would do."

    grant(admin, "user:ann", "operate", "lake.shop.orders")
    assert actions(ann)["sync"] is None
    assert actions(ann)["remove"] == "It needs the privilege manage."

    assert admin("POST", f"tables/{table.pk}:pause").status_code < 300
    now = actions()
    assert now["resume"] is None
    assert now["sync"] == "The table is PAUSED: resume it first."

    source = world.pipeline("orders").source_table
    assert admin("GET", f"tables/{source.pk}").json()["table_actions"] == []

    # plans of wide tables are large, and none is shown
    read = pipeline_offering(table.pk)
    assert world.pipeline("orders").plan
    assert read is not None
    assert read.plan == {}
