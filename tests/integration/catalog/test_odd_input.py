"""Whatever is sent, the answer is a reply that was thought of: never a 5xx."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from catalog.api.views import MOST_VALUES
from tests.integration.catalog.asking import new_source, problem

pytestmark = pytest.mark.django_db
fuzz = settings(
    max_examples=15,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
texts = st.text(max_size=40) | st.sampled_from(
    ["\x00", "a\x00b", "lake", "`", "a.b", "%", "\\", "'", "../..", "x" * 300, "🐘"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
    ),
    max_leaves=6,
)

PATHS = [
    "datasources/{}",
    "datasources/{}/databases",
    "datasources/shop/databases/{}",
    "datasources/shop/databases/{}/tables",
    "datasources/shop/databases/public/tables/{}",
    "tables?name={}",
    "tables?q={}",
    "tables?datasource={}",
    "tables?status={}",
    "tables?page_token={}",
    "tables?page_size={}",
    "tables?sort={}",
    "tables?{}=1",
    "tables/{}",
    "users?q={}",
    "users?group={}",
    "grants?principal={}",
    "grants?on={}",
    "tokens?user={}",
    "audit?actor={}",
    "audit?object={}",
    "audit?is_allowed={}",
    "jobs?state={}",
    "jobs?table={}",
]


@fuzz
@given(text=texts)
@example(text="\x00")
@example(text="9" * 40)
def test_odd_addresses(admin, shop, text):
    encoded = quote(text, safe="", errors="surrogatepass")
    for path in PATHS:
        reply = admin("GET", path.format(encoded))
        assert reply.status_code < 500, (path, text, reply.content[:300])


BODIES = {
    "datasources": new_source(),
    "users": {"name": "zoe", "password": "correct horse battery", "groups": []},
    "grants": {"principal": "group:bi", "privilege": "select", "on": "lake"},
    "tokens": {"name": "t", "expires_in_days": 3},
    "onboardings": {
        "datasource": "shop",
        "include": ["public.*"],
        "exclude": [],
        "capture": "snapshot",
        "schedule": None,
        "target_database": None,
        "tables": {},
        "approve": False,
    },
}


@pytest.mark.parametrize("path", list(BODIES))
@fuzz
@given(data=st.data())
def test_odd_bodies(admin, shop, path, data):
    body = dict(BODIES[path])
    name = data.draw(st.sampled_from([*body, "options", "columns"]))
    body[name] = data.draw(values)
    reply = admin("POST", path, json.dumps(body).encode())
    allowed = reply.status_code < 500 or reply.json()["code"] == "not_yet"
    assert allowed, (body, reply.content[:300])


@fuzz
@given(body=values)
def test_bodies_that_are_no_object(admin, body):
    reply = admin("POST", "tokens", json.dumps(body).encode())
    assert reply.status_code < 500


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b"[" * 200_000, 400),
        (b'{"name": "\\ud800"}', 400),
        (b'{"name": "\\u0000"}', 400),
        (b'{"name": NaN}', 400),
    ],
)
def test_bodies_that_are_no_text(admin, body, status):
    reply = admin("POST", "tokens", body)
    assert reply.status_code == status
    assert reply.json()["hint"] or reply.json()["code"] != "invalid_request"


def test_a_huge_body_is_refused_unread(admin):
    problem(admin("POST", "tokens", b" " * (5 * 2**20 + 1)), 413, "body_too_large")


def test_a_body_of_too_many_values_is_refused_before_they_are_checked(ann):
    """A user without any right: a million wrong names took the web process 50 s."""
    body = {"datasource": "shop", "include": [{}] * MOST_VALUES}
    problem(ann("POST", "onboardings", body), 413, "body_too_large")


@pytest.mark.parametrize("text", ["\\u0000", "\\ud800"])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        (
            "POST",
            "onboardings",
            '{"datasource": "shop", "include": ["public.orders"], "exclude": ["X"]}',
        ),
        ("PATCH", "datasources/shop/policy", '{"X": 1}'),
        ("POST", "datasources/shop:test", '{"X": 1}'),
    ],
)
def test_no_body_carries_what_cannot_be_stored(admin, shop, method, path, body, text):
    sent = body.replace("X", text).encode()
    problem(admin(method, path, sent), 400, "invalid_text")
