"""Choosing tables and how they are carried: nothing chosen is lost, all is choosable."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from catalog.access import grants
from catalog.access.policy import Principal
from catalog.models import AuditEntry, Table
from core.models import Job
from frontend.reading.onboardings import progress_of
from ingest.models import Onboarding, Pipeline
from tests.integration.frontend.world import HOSTILE
from tests.integration.ingest.world import make_tables

PICK = "/sources/shop/onboard"


@pytest.fixture
def fresh(world) -> Any:
    """A world without plans, and a table nobody may read."""
    Pipeline.objects.filter(onboarding=world.proposed).delete()
    database = world.source_tables["free"].database
    Table.objects.create(
        database=database,
        name="secret",
        source_name="secret",
        status="NO_PRIVILEGE",
        status_reason="the datasource's user may not SELECT it",
    )
    return world


def newest() -> Onboarding:
    return Onboarding.objects.order_by("-created_at")[0]


def test_what_cannot_be_carried_is_shown_with_the_way_out(fresh, browse):
    client = browse("root")
    (secret,) = client.get(f"{PICK}/rows", {"q": "secret", "count": 1}).json()["items"]
    assert "may not SELECT" in secret["cannot"]
    assert 'GRANT SELECT ON "public"."secret" TO "sluice"' in secret["way_out"]
    assert client.get(f"{PICK}/rows", {"q": "secret", "count": 1}).json()["free"] == 0
    rows = client.get(PICK, {"q": "secret"}, HTTP_HX_REQUEST="true",
                      HTTP_HX_TARGET="pick-list").content.decode()  # fmt: skip
    assert "disabled" in rows
    assert "cannot be synced" in rows


@pytest.mark.parametrize("column", ["shop", "name"])
def test_a_sharded_table_shows_the_rows_of_all_shards_and_its_whole_key(
    fresh, browse, column
):
    for name in ("shop_1", "shop_2", "shop_3"):
        make_tables(fresh.source, ["t"], database=name)
    data = {"capture": "snapshot", "include": "shop_*.t", "shard_column": column}
    page = browse("root").post(PICK, data, follow=True).content.decode()
    assert "3,000 rows" in page
    assert ">3,000<" in "".join(page.split())
    assert ("shop, id" in page) is (column == "shop")  # else it is blocked


def test_choose_all_passes_over_what_cannot_be_carried(fresh, browse):
    client = browse("root")
    data = {"capture": "snapshot", "all_matching": "1", "matching_q": ""}
    page = client.post(PICK, data, follow=True).content.decode()
    assert "1 table cannot be synced and" in page
    assert "GRANT SELECT" in page
    assert newest().tables.count() == 2


def test_an_error_loses_nothing_and_tells_all(fresh, browse):
    data = {
        "capture": "timestamp",
        "when": "cron",
        "cron": "61 * * * *",
        "wish_buckets": "9999",
        "wish_cursor": "changed_on",
        "selected": "public.free\npublic.secret",
        "all_matching": "1",
        "matching_q": "fre*",
        "matching_free": "1",
        "unselected": "public.x",
    }
    page = browse("root").post(PICK, data).content.decode()
    assert "the minute" in page
    assert "less than or equal to 4096" in page
    for kept in ("public.secret", "changed_on", "fre*", "public.x", "61 * * * *"):
        assert kept in page


def test_tables_of_a_pattern_become_one_sharded_table(fresh, browse):
    for name in ("shop_1", "shop_2"):
        make_tables(fresh.source, ["t"], database=name)
    client = browse("root")
    data = {"capture": "snapshot", "include": "shop_*.t", "shard_column": "No way"}
    page = client.post(PICK, data).content.decode()
    assert "cannot be a column of the lake" in page
    page = client.post(PICK, data | {"shard_column": "shop"}, follow=True)
    shown = page.content.decode()
    assert "2 source tables" in shown
    for name in ("shop_*.t", "shop_1.t", "shop_2.t"):
        assert name in shown
    (row,) = newest().tables.all()
    assert row.plan["steps"][0]["columns"][0]["name"] == "shop"


def test_a_plan_that_waits_is_found_from_its_source(fresh, browse):
    client = browse("root")
    client.post(PICK, {"capture": "timestamp", "selected": "public.free"})
    plan = newest()
    here = reverse("frontend:source-pipeline", args=[plan.datasource.name])
    link = reverse("frontend:onboarding", args=[plan.pk])
    assert link in client.get(here).content.decode()
    Onboarding.objects.filter(pk=plan.pk).update(approved_at=timezone.now())
    assert link in client.get(here).content.decode(), "of another table's approval"
    Pipeline.objects.filter(onboarding=plan).update(state="APPROVED")
    assert link not in client.get(here).content.decode()


def test_all_mistakes_of_a_request_are_told(fresh, browse):
    data = {
        "capture": "snapshot",
        "include": "public.nothing\npublic.secret\npublic.orders",
        "target_database": "Not Good",
    }
    page = browse("root").post(PICK, data).content.decode()
    for said in ("matches no table", "may not SELECT", "onboarded already"):
        assert said in page
    assert "cannot be a lake database" in page
    assert not Onboarding.objects.filter(request__include=["public.nothing"]).exists()


def test_a_wrong_form_hides_no_mistake_of_the_request(fresh, browse):
    data = {
        "capture": "timestamp",
        "when": "cron",
        "cron": "61 * * * *",
        "timezone": "Europe/Nowhere",
        "target_database": "Not Good",
        "include": "public.free\npublic.orders",
    }
    page = browse("root").post(PICK, data).content.decode()
    assert "Cron: the minute" in page
    assert "Time zone: &#x27;Europe/Nowhere&#x27; is no IANA time zone" in page
    assert "Lake database: " in page
    assert "cannot be a lake database" in page
    assert "Include: &#x27;public.orders&#x27; is onboarded already" in page
    assert "change or remove lake.shop.orders" in page
    assert "See the tables that are synced already" in page
    assert "/target_database" not in page


def test_a_plan_is_discarded_and_its_tables_are_free_again(fresh, browse):
    client = browse("root")
    client.post(PICK, {"capture": "timestamp", "selected": "public.free"})
    plan = newest()
    here = reverse("frontend:onboarding-discard", args=[plan.pk])
    assert here in client.get(f"/onboardings/{plan.pk}").content.decode()
    assert "1 table that is not approved" in client.get(here).content.decode()
    assert plan.tables.get().state == "PROPOSED", "looking changes nothing"
    assert client.post(here)["Location"] == "/sources/shop"
    given_up = plan.tables.get()
    assert (given_up.state, given_up.status_reason) == ("RETIRED", "discarded by root")
    entry = AuditEntry.objects.get(action="onboarding.discard")
    assert (entry.actor, entry.object) == ("root", "shop")
    assert here not in client.get(f"/onboardings/{plan.pk}").content.decode()
    client.post(PICK, {"capture": "timestamp", "selected": "public.free"})
    assert newest().pk != plan.pk
    assert newest().tables.get().state == "PROPOSED"


def test_one_table_is_given_everything(fresh, browse):
    client = browse("root")
    client.post(PICK, {"capture": "timestamp", "selected": "public.free"})
    pipeline = newest().tables.get()
    at = reverse(
        "frontend:onboarding-choose", args=[pipeline.onboarding_id, pipeline.pk]
    )
    shown = client.get(at).content.decode()
    assert 'value="shop.free"' in shown
    given = {
        "capture": "snapshot",
        "lake": "mart.free_table",
        "key_kind": "row_hash",
        "buckets": "3",
        "when": "inherit",
        "exclude_columns": ["amount"],
    }
    assert client.post(at, given).status_code == 302
    pipeline.refresh_from_db()
    assert (pipeline.capture, pipeline.plan["blocked"]) == ("snapshot", "")
    assert (pipeline.plan["database"], pipeline.plan["name"]) == ("mart", "free_table")
    assert pipeline.plan["steps"][0]["row_hash"]
    back = {"capture": "timestamp", "key_kind": "", "when": "cron", "cron": "5 1 * * *"}
    client.post(at, back)
    pipeline.refresh_from_db()
    assert pipeline.capture == "timestamp"
    assert pipeline.policy["schedule"] == {"cron": "5 1 * * *", "timezone": "UTC"}
    wrong = client.post(at, {**back, "cron": "", "lake": "Not.Good"}).content.decode()
    assert "cron has 0 fields" in wrong
    assert "Not.Good" in wrong


def test_many_tables_are_given_choices_at_once(fresh, browse):
    client = browse("root")
    chosen = {"capture": "timestamp", "include": "public.*"}
    pk = client.post(PICK, chosen)["Location"].rpartition("/")[2]
    pipelines = Pipeline.objects.filter(onboarding=pk)
    assert pipelines.count() == 2
    plan = client.get(reverse("frontend:onboarding", args=[pk])).content.decode()
    assert 'form="many"' in plan
    many = reverse("frontend:onboarding-many", args=[pk])
    assert "Choices for 2 tables" in client.get(many, {"of": "all"}).content.decode()
    given = {
        "of": "all",
        "capture": "",
        "when": "every",
        "every_seconds": "60",
        "database": "mart",
        "wish_exclude": "name\nnowhere",
        "wish_buckets": "5",
    }
    assert client.post(many, given).status_code == 302
    for pipeline in pipelines:
        assert pipeline.policy["schedule"] == {"every_seconds": 60}
        assert pipeline.plan["database"] == "mart"
        assert pipeline.plan["excluded"] == ["name"]
        assert pipeline.plan["proposals"]["buckets"]["value"] == 5
    one = pipelines.get(source_table__name="free")
    client.post(many, {"pipeline": [one.pk], "capture": "snapshot", "when": ""})
    assert pipelines.get(pk=one.pk).capture == "snapshot"
    other = pipelines.get(source_table__name=HOSTILE)
    assert (other.capture, other.plan["excluded"]) == ("timestamp", ["name"])
    assert pipelines.get(pk=one.pk).plan["excluded"] == ["name"]
    clash = {"of": "all", "database": "Not Good", "when": ""}
    told = client.post(many, clash, follow=True).content.decode()
    assert "public.free stays as it was" in told


def test_only_who_may_manage_chooses(fresh, browse):
    client = browse("root")
    client.post(PICK, {"capture": "snapshot", "selected": "public.free"})
    many = reverse("frontend:onboarding-many", args=[newest().pk])
    assert browse("ann").post(many, {"of": "all"}).status_code == 403


def test_a_lake_database_takes_a_right_of_its_own(fresh, browse):
    """`manage` on the source chooses tables, not where in the lake they go."""
    grants.grant(principal="user:ann", privilege="manage", on="shop", by="root")
    client, before = browse("ann"), Onboarding.objects.count()
    data = {"capture": "snapshot", "selected": "public.free"}
    page = client.post(PICK, {**data, "target_database": "sand"}).content.decode()
    assert "rivilege &#x27;manage&#x27; on lake.sand is missing" in page
    assert Onboarding.objects.count() == before
    grants.grant(principal="user:ann", privilege="manage", on="lake.sand", by="root")
    assert client.post(PICK, {**data, "target_database": "sand"}).status_code == 302
    plan = newest().tables.get()
    choose = reverse("frontend:onboarding-choose", args=[plan.onboarding_id, plan.pk])
    client.post(choose, {"lake": "elsewhere.free", "when": ""})
    plan.refresh_from_db()
    assert plan.plan["database"] == "sand"


def test_what_holds_for_all_tables_of_a_plan_is_told_once(world, browse):
    """Three severities: what can be missing, what is good to know, what needs a choice."""
    first, second = world.onboarding.tables.order_by("pk")[:2]
    shared, own = "deleted rows stay in the lake until a resync", "one row is odd"
    known = "columns under another name: A → a"
    first.plan["warnings"] = [known, shared, own]
    first.save(update_fields=["plan"])
    client = browse("root")
    here = f"/onboardings/{world.onboarding.pk}"
    text = client.get(here).content.decode()
    assert text.count(shared) == 1
    assert shared in text.partition('id="shared"')[2].partition("</section>")[0]
    rows = text.partition(f'id="plan-{first.pk}"')[2].partition("</details>")[0]
    assert rows.index(own) < rows.index(known), "what can be missing comes first"
    note = rows.partition(known)[0].rpartition("<li")[2]
    assert 'class="is-note"' in note
    assert "1 warning" in rows
    # names lead to the tables as soon as there are some
    assert f'href="/tables/{second.lake_table_id}"' in text
    assert world.proposed.tables.count() == 2
    lone = client.get(f"/onboardings/{world.proposed.pk}").content.decode()
    assert 'id="shared"' not in lone


def test_a_choice_is_made_in_the_row(world, browse):
    blocked = world.proposed.tables.get(status_reason="choose a key")
    blocked.plan["proposals"]["record_key"]["value"] = None
    blocked.plan["blocked"] = blocked.status_reason
    blocked.save(update_fields=["plan"])
    client, here = browse("root"), f"/onboardings/{world.proposed.pk}"
    text = client.get(here).content.decode()
    for choice in ("row_hash", "leave_out"):
        assert f'value="{choice}"' in text
    assert text.count("needs a choice") == 3, "its badge, the filter, the remark"
    address = f"{here}/tables/{blocked.pk}/decide"
    assert client.post(address, {"choice": "nonsense"}).status_code == 404
    assert browse("ann").post(address, {"choice": "row_hash"}).status_code == 403
    assert client.post(address, {"choice": "row_hash"}).status_code == 302
    blocked.refresh_from_db()
    assert blocked.plan["proposals"]["record_key"]["value"] == "row_hash"
    assert (blocked.capture, blocked.plan["blocked"]) == ("snapshot", "")
    client.post(address, {"choice": "leave_out"})
    blocked.refresh_from_db()
    assert blocked.state == "RETIRED"
    assert world.proposed.tables.filter(state="PROPOSED").count() == 1
    line = AuditEntry.objects.filter(action="onboarding.discard").latest("id")
    assert line.facts == {"id": str(world.proposed.pk), "tables": 1}


def test_jobs_that_run_come_before_those_that_wait(world):
    """Of 300 tables that load, ten jobs are shown."""
    for number, table in enumerate(world.lake_tables.values()):
        Job.objects.create(
            kind="snapshot",
            subject=str(table),
            subject_id=str(table.pk),
            exclusive_key=f"snapshot:{number}",
            state="QUEUED" if number else "RUNNING",
            started_at=None if number else timezone.now(),
            payload={"table": table.pk},
        )
    shown = progress_of(Principal("root", is_admin=True), world.onboarding).jobs
    states = [job.state for job in shown]
    assert states.count("RUNNING") >= 1
    assert states == sorted(states, key=lambda state: state == "QUEUED")
