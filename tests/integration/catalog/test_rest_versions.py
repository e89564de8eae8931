"""ETags: a change on top of what somebody else changed meanwhile is refused."""

from __future__ import annotations

import pytest

from catalog.api.idempotency import is_idempotent
from tests.integration.catalog.asking import live_routes, problem

pytestmark = pytest.mark.django_db
VERSIONED = {
    "datasources/shop": (
        {"options": {"max_parallel_reads": 3}},
        {"options": {"max_parallel_reads": 4}},
    ),
    "users/ann": ({"groups": ["a"]}, {"is_active": False}),
    "datasources/shop/policy": ({"lag_seconds": 3}, {"lag_seconds": None}),
    "datasources/shop/databases/public/policy": (
        {"compact_after": 3},
        {"compact_after": 4},
    ),
}


def test_of_two_changes_of_a_saved_query_the_second_reads_again(admin):
    made = admin("POST", "saved-queries", {"name": "counts", "sql": "SELECT 1"})
    path = made["Location"].removeprefix("/api/v1/")
    tag = admin("GET", path)["ETag"]
    done = admin("PATCH", path, {"sql": "SELECT 2"}, If_Match=tag)
    assert done["ETag"] != tag
    late = admin("PATCH", path, {"sql": "SELECT 3"}, If_Match=tag)
    problem(late, 412, "precondition_failed")
    assert admin("GET", path).json()["sql"] == "SELECT 2"


@pytest.mark.parametrize("path", list(VERSIONED))
def test_of_two_changes_the_second_reads_again(admin, ann, shop, path):
    first, second = VERSIONED[path]
    tag = admin("GET", path)["ETag"]
    assert admin("GET", path, If_None_Match=tag).status_code == 304
    done = admin("PATCH", path, first, If_Match=tag)
    assert done.status_code == 200
    assert done["ETag"] != tag
    problem(admin("PATCH", path, second, If_Match=tag), 412, "precondition_failed")
    problem(admin("PATCH", path, second, If_Match='"x"'), 412, "precondition_failed")
    again = admin("GET", path)
    assert again["ETag"] == done["ETag"]
    assert admin("GET", path, If_None_Match=tag).status_code == 200
    assert admin("PATCH", path, second, If_Match=again["ETag"]).status_code == 200
    assert admin("PATCH", path, first, If_Match="*").status_code == 200


def test_a_user_sees_himself_and_nobody_else(admin, ann):
    assert ann("GET", "users/ann").json()["groups"] == ["bi"]
    assert admin("GET", "users/ann").status_code == 200
    for name in ["root", "nobody"]:
        problem(ann("GET", f"users/{name}"), 404, "user_not_found")


def test_a_new_password_is_a_new_version(admin, ann):
    tag = admin("GET", "users/ann")["ETag"]
    admin("PATCH", "users/ann", {"password": "quite another one"})
    late = admin("PATCH", "users/ann", {"is_admin": True}, If_Match=tag)
    problem(late, 412, "precondition_failed")


def test_every_post_may_be_repeated_under_a_key():
    """A cancelled statement stays cancelled, so that one needs no key."""
    without = {
        route
        for method, route, view in live_routes()
        if method == "POST"
        and view.__name__ not in {"NotYet", "NothingHere"}
        and not is_idempotent(view.post)
    }
    assert without == {"sql/statements/<uuid:id>:cancel"}


def test_every_change_of_a_shared_thing_honours_if_match():
    views = {
        (route, view)
        for method, route, view in live_routes()
        if method == "PATCH" and view.__name__ not in {"NotYet", "NothingHere"}
    }
    assert {route for route, view in views if view.is_versioned} == {
        route for route, _ in views
    }
