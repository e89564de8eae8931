"""Roles over REST, and by which grant somebody may do what."""

from __future__ import annotations

import pytest

from catalog.access import policy_feed
from catalog.access.policy import ROLES, Privilege, Role
from catalog.models import Grant
from tests.integration.catalog.asking import problem

pytestmark = pytest.mark.django_db


def give(admin, **body):
    made = admin("POST", "grants", {"principal": "user:ann", "on": "lake.shop", **body})
    assert made.status_code == 201, made.content
    return made.json()


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("on", ["shop", "shop.public", "shop.public.orders"])
def test_a_role_opens_exactly_its_doors(admin, ann, shop, role, on):
    give(admin, role=role, on=on)
    found = ann("GET", "tables").json()["items"]
    assert "shop.public.orders" in {t["qualified_name"] for t in found}
    rights = ann("GET", "grants/effective?on=shop.public.orders").json()
    allowed = {r["privilege"] for r in rights["privileges"] if r["allowed"]}
    assert allowed == {p.value for p in ROLES[role]}
    expected = {"viewer": 403, "analyst": 403, "operator": 202, "editor": 202}
    if on == "shop":
        assert ann("POST", "datasources/shop:test").status_code == expected[role]


def test_a_role_is_shown_as_one_and_taken_back_whole(admin, ann, lake_orders):
    made = give(admin, role="analyst")
    assert (made["role"], made["privilege"]) == ("analyst", None)
    assert admin("GET", "grants?role=analyst").json()["items"] == [made]
    assert admin("GET", "grants?privilege=select").json()["items"] == []
    assert policy_feed.policy_for("ann").select == ("shop.*",)
    assert admin("DELETE", f"grants/{made['id']}").status_code == 204
    assert policy_feed.policy_for("ann").select == ()


def test_one_of_privilege_and_role(admin, ann):
    body = {"principal": "user:ann", "on": "lake"}
    problem(admin("POST", "grants", body), 400, "invalid_request")
    both = {**body, "role": "viewer", "privilege": "select"}
    problem(admin("POST", "grants", both), 400, "invalid_request")
    problem(admin("POST", "grants", {**body, "role": "owner"}), 400, "unknown_role")
    wrong = {**body, "privilege": "viewer"}
    problem(admin("POST", "grants", wrong), 400, "unknown_privilege")
    scoped = admin("POST", "grants", {**body, "role": "admin"})
    assert "is_admin" in problem(scoped, 400, "admin_is_not_scoped")["hint"]


def test_every_way_to_a_privilege_is_named(admin, ann, lake_orders):
    mine = give(admin, privilege="select", on="lake.shop.orders")
    team = give(admin, principal="group:bi", role="editor", on="lake")
    give(admin, principal="group:hr", role="editor", on="lake")
    asked = "grants/effective?principal=user:ann&on=lake.shop.orders"
    body = admin("GET", asked).json()
    assert (body["principal"], body["groups"]) == ("user:ann", ["bi"])
    via = {r["privilege"]: [g["id"] for g in r["via"]] for r in body["privileges"]}
    assert via == {
        "discover": [mine["id"], team["id"]],
        "select": [mine["id"], team["id"]],
        "operate": [team["id"]],
        "manage": [team["id"]],
    }
    assert ann("GET", "grants/effective?on=lake.shop.orders").json() == body
    group = ann("GET", "grants/effective?on=lake&principal=group:bi").json()
    assert all(r["allowed"] for r in group["privileges"])


def test_rights_of_others_are_for_administrators(admin, ann):
    for principal in ["user:root", "group:hr", "user:nobody"]:
        path = f"grants/effective?on=lake&principal={principal}"
        problem(ann("GET", path), 403, "admin_only")
    path = "grants/effective?on=lake&principal=user:nobody"
    problem(admin("GET", path), 400, "unknown_user")
    problem(ann("GET", "grants/effective"), 400, "invalid_request")
    root = admin("GET", "grants/effective?on=lake").json()["privileges"]
    assert {(r["allowed"], r["reason"]) for r in root} == {(True, "admin")}
    assert [r["privilege"] for r in root] == list(Privilege)


@pytest.mark.parametrize(
    ("on", "near"),
    [
        ("lake.shop.ordres", ["lake.shop.orders"]),
        ("lake.shpo.orders", ["lake.shop"]),
        ("lake.zzz", []),
    ],
)
def test_a_name_that_is_not_there_is_refused_with_the_nearest(
    admin, lake_orders, on, near
):
    given = {"principal": "group:bi", "privilege": "select", "on": on}
    refused = problem(admin("POST", "grants", given), 400, "unknown_name")
    assert refused["nearest"] == near
    assert "allow_unknown" in refused["hint"]
    assert not Grant.objects.exists()
    to_come = admin("POST", "grants", given | {"allow_unknown": True})
    assert to_come.status_code == 201
