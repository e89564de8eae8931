"""Where plans may write to, and who may make, change, approve and discard them."""

from __future__ import annotations

import pytest
from django.test import Client

from catalog.access import grants
from catalog.access.principals import principal_for
from catalog.datasources import lake_database
from catalog.models import AuditEntry, Grant, Table
from core.errors import AccessDenied
from ingest.models import Onboarding, Pipeline
from ingest.pipelines.plan_overrides import Everywhere, choose_for, choose_for_many
from ingest.planning.facts import Choices
from tests.integration.catalog.asking import problem
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.integration.ingest.world import make_source, make_tables

pytestmark = pytest.mark.django_db

ONE = {"datasource": "shop", "include": ["vis.a"], "capture": "snapshot"}


@pytest.fixture(autouse=True)
def tables(db):
    """A source with three schemas of two tables each."""
    source = make_source()
    for schema in ("vis", "hid", "vis.too"):
        make_tables(source, ["a", "b"], database=schema)


def give(privilege: str, *things: str) -> None:
    for on in things:
        grants.grant(principal="user:ann", privilege=privilege, on=on, by="root")


def refused_places() -> list[str]:
    rows = AuditEntry.objects.filter(action="manage.denied", actor="ann")
    return list(rows.order_by("pk").values_list("object", flat=True))


@pytest.mark.parametrize(
    "target",
    [
        {"target_database": "sand"},
        {"tables": {"vis.a": {"lake": "sand.a"}}},
    ],
)
@pytest.mark.parametrize("verb", [{"dry_run": True}, {"approve": True}, {}])
@pytest.mark.parametrize("is_there", [True, False])
def test_who_may_read_a_place_may_not_send_rows_there(
    ann, target, verb, is_there
) -> None:
    give("manage", "shop")
    give("select", "lake.sand")
    if is_there:
        lake_database("sand")
    refused = problem(
        ann("POST", "onboardings", {**ONE, **target, **verb}), 403, "missing_privilege"
    )
    assert refused["on"] == "lake.sand"
    assert not Pipeline.objects.exists()
    assert refused_places() == ["lake.sand"]
    give("manage", "lake.sand")
    assert ann("POST", "onboardings", {**ONE, **target, **verb}).status_code < 300


def test_what_is_in_the_lake_is_not_told_by_a_plan(ann) -> None:
    place = lake_database("secret")
    Table.objects.create(database=place, name="there", kind=Table.LAKE)
    give("manage", "shop")

    def asked(name: str) -> dict[str, str]:
        body = {**ONE, "dry_run": True, "tables": {"vis.a": {"lake": name}}}
        return problem(ann("POST", "onboardings", body), 403, "missing_privilege")

    answers = [asked(f"secret.{name}")["detail"] for name in ("there", "absent")]
    assert len(set(answers)) == 1
    assert asked("nowhere.x")["detail"] == answers[0].replace("secret", "nowhere")


@pytest.mark.parametrize(
    ("held", "is_seen"),
    [
        (("shop",), False),
        (("shop.vis",), False),
        (("shop", "lake.secret"), True),
        (("shop.vis", "lake.secret.a"), True),
    ],
)
def test_where_a_plan_leads_is_for_who_may_see_the_place(
    admin, ann, django_user_model, held, is_seen
) -> None:
    chosen = {"target_database": "secret", "tables": {"vis.b": {"lake": "secret.bee"}}}
    body = {**ONE, "include": ["vis.a", "vis.b"], **chosen}
    made = admin("POST", "onboardings", body).json()["id"]
    admin("POST", f"onboardings/{made}:approve")
    give("discover", *held)
    for address in (f"onboardings/{made}", "onboardings"):
        answer = ann("GET", address)
        assert answer.status_code == 200
        assert ("secret" in answer.content.decode()) == is_seen
    shown = {t["source"]: t for t in ann("GET", f"onboardings/{made}").json()["tables"]}
    assert shown["vis.a"]["name"] == ("lake.secret.a" if is_seen else None)
    client = Client()
    user = django_user_model.objects.get(username="ann")
    client.force_login(user, backend="catalog.access.backend.SluiceBackend")
    page = client.get(f"/onboardings/{made}")
    assert page.status_code == 200
    assert ("secret" in page.content.decode()) == is_seen


def test_a_default_place_is_shown_to_who_manages_the_source(admin, ann) -> None:
    made = admin("POST", "onboardings", ONE).json()["id"]
    for privilege, name in (("discover", None), ("manage", "lake.shop_vis.a")):
        give(privilege, "shop")
        [table] = ann("GET", f"onboardings/{made}").json()["tables"]
        assert table["name"] == name


def test_a_denial_stays_in_the_audit_with_an_idempotency_key(ann) -> None:
    give("manage", "shop")
    body = {**ONE, "target_database": "sand"}
    for _ in range(2):
        refused = ann("POST", "onboardings", body, Idempotency_Key="once")
        assert refused.status_code == 403
    assert refused_places() == ["lake.sand"]


def test_a_default_place_is_for_managers_of_the_whole_source(ann) -> None:
    give("manage", "shop.vis")
    problem(ann("POST", "onboardings", ONE), 403, "missing_privilege")
    give("manage", "shop")
    assert ann("POST", "onboardings", ONE).status_code == 202


@pytest.mark.parametrize("on", ["lake.shop_vis", "lake.shop_vis.a"])
def test_a_default_place_that_grants_name_needs_a_right_of_its_own(ann, on) -> None:
    give("manage", "shop")
    row = Onboarding.objects.get(pk=ann("POST", "onboardings", ONE).json()["id"])
    grants.grant(principal="group:x", privilege="select", on=on, by="root")
    problem(ann("POST", f"onboardings/{row.pk}:approve"), 403, "missing_privilege")
    assert refused_places() == ["lake.shop_vis"]
    assert Pipeline.objects.get().state == "PROPOSED"
    give("manage", "lake.shop_vis")
    assert ann("POST", f"onboardings/{row.pk}:approve").status_code == 202
    assert Pipeline.objects.get().state == "APPROVED"


def test_rights_are_judged_again_when_a_plan_is_approved(admin, ann) -> None:
    made = admin("POST", "onboardings", {**ONE, "target_database": "sand"}).json()
    give("manage", "shop")
    problem(ann("POST", f"onboardings/{made['id']}:approve"), 403, "missing_privilege")
    assert refused_places() == ["lake.sand"]
    assert not Table.objects.filter(kind=Table.LAKE).exists()


def test_choices_for_a_plan_need_the_right_too(admin, ann) -> None:
    give("manage", "shop")
    admin("POST", "onboardings", ONE)
    pipeline, her = Pipeline.objects.get(), principal_for("ann")
    same = Choices(lake="shop_vis.a", buckets=2)
    assert not choose_for(pipeline, same, principal=her).is_target_chosen
    pipeline.refresh_from_db()
    with pytest.raises(AccessDenied):
        choose_for(pipeline, Choices(lake="sand.a"), principal=her)
    with pytest.raises(AccessDenied):
        choose_for_many(
            Pipeline.objects.all(), Everywhere(database="sand"), principal=her
        )
    give("manage", "lake.sand")
    plan = choose_for(pipeline, Choices(lake="sand.a"), principal=her)
    assert (plan.database, plan.is_target_chosen) == ("sand", True)


@pytest.mark.parametrize(
    "target",
    [
        {"target_database": "sand"},
        {"tables": {"vis.a": {"lake": "sand.a"}}},
    ],
)
def test_where_one_table_was_sent_is_no_default_for_others(admin, target) -> None:
    assert admin("POST", "onboardings", {**ONE, **target}).status_code == 202
    other = admin("POST", "onboardings", {**ONE, "include": ["vis.b"]}).json()
    assert other["tables"][0]["name"] == "lake.shop_vis.b"


def test_patterns_mean_what_is_managed_alone(ann) -> None:
    """ "vis.*" fits "vis.too.a" as well, which is another schema's table."""
    give("manage", "shop.vis", "lake.shop_vis")
    made = ann("POST", "onboardings", {**ONE, "include": ["vis.*"]})
    assert made.status_code == 202, made.content
    assert [t["source"] for t in made.json()["tables"]] == ["vis.a", "vis.b"]
    named = ann("POST", "onboardings", {**ONE, "include": ["vis.too.a"]})
    absent = ann("POST", "onboardings", {**ONE, "include": ["vis.too.x"]})
    told = [problem(each, 400, "unknown_table")["detail"] for each in (named, absent)]
    assert told[0].replace("too.a", "too.x") == told[1]


def test_who_may_make_a_plan_may_approve_and_discard_it(ann) -> None:
    give("manage", "shop.vis", "shop.hid", "lake.shop_vis", "lake.shop_hid")
    both = {**ONE, "include": ["vis.a", "hid.*"]}
    made = ann("POST", "onboardings", both)
    assert made.status_code == 202, made.content
    approved = ann("POST", f"onboardings/{made.json()['id']}:approve")
    assert approved.json()["counts"] == {"APPROVED": 3}
    other = ann("POST", "onboardings", {**both, "include": ["vis.b"]}).json()["id"]
    assert ann("POST", f"onboardings/{other}:discard").status_code == 200


def test_a_plan_is_approved_by_who_manages_all_of_it(admin, ann) -> None:
    both = {**ONE, "include": ["vis.a", "hid.a"]}
    one = f"onboardings/{admin('POST', 'onboardings', both).json()['id']}"
    give("manage", "shop.vis", "lake")
    for verb in ("approve", "discard"):
        assert ann("POST", f"{one}:{verb}").status_code == 404
    give("discover", "shop.hid")
    for verb in ("approve", "discard"):
        problem(ann("POST", f"{one}:{verb}"), 403, "missing_privilege")
    assert set(Pipeline.objects.values_list("state", flat=True)) == {"PROPOSED"}


def test_errors_stay_errors(ann) -> None:
    give("manage", "shop")
    bad = {**ONE, "tables": {"vis.a": {"lake": "Not Good.x"}}}
    problem(ann("POST", "onboardings", bad), 400, "invalid_lake_name")
    bad = {**ONE, "target_database": "default"}
    problem(ann("POST", "onboardings", bad), 400, "invalid_name")
    assert not Grant.objects.filter(datasource="lake").exists()
