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


def test_a_page_of_long_queries_stays_small(ann, monkeypatch):
    """A thousand of 100,000 characters each would fill the web process's memory."""
    monkeypatch.setattr("catalog.api.saved_queries.MOST_LISTED", 2)
    for name in "abc":
        assert ann("POST", "saved-queries", QUERY | {"name": name}).status_code == 201
    first = ann("GET", "saved-queries?page_size=1000").json()
    assert [one["name"] for one in first["items"]] == ["a", "b"]
    at = f"saved-queries?page_size=1000&page_token={first['next_page_token']}"
    assert [one["name"] for one in ann("GET", at).json()["items"]] == ["c"]


def test_a_body_that_rest_takes_is_no_defect(admin):
    """Django's own limit is half of ours."""
    long = admin("POST", "saved-queries", QUERY | {"sql": "x" * 3_000_000})
    assert long.status_code == 400, long.content
    assert long.json()["code"] != "internal_error"
