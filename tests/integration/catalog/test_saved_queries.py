"""REST of saved queries: own and shared; only their owner changes them."""

from __future__ import annotations

from tests.integration.catalog.asking import problem

QUERY = {"name": "counts", "sql": "SELECT count(*) FROM shop.orders"}


def test_saved_queries_over_rest(admin, ann):
    made = admin("POST", "saved-queries", QUERY)
    assert made.status_code == 201
    at = made["Location"].removeprefix("/api/v1/")
    problem(admin("POST", "saved-queries", QUERY), 400, "invalid_query")
    problem(ann("GET", at), 404, "query_not_found")
    assert admin("PATCH", at, {"is_shared": True}).json()["is_shared"]
    assert ann("GET", at).json()["sql"] == QUERY["sql"]
    listed = ann("GET", "saved-queries").json()["items"]
    assert [one["owner"] for one in listed] == [made.json()["owner"]]
    problem(ann("PATCH", at, {"name": "mine"}), 403, "access_denied")
    problem(ann("DELETE", at), 403, "access_denied")
    assert admin("DELETE", at).status_code == 204
    problem(admin("GET", at), 404, "query_not_found")
