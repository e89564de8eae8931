"""Onboardings want their privileges; and /config tells what is really there."""

from __future__ import annotations

import pytest

from core.errors import InvalidRequest
from ingest.planning.facts import Choices
from ingest.requests import parse_request
from tests.integration.catalog.asking import grants_now, live_routes
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.integration.ingest.world import make_tables

pytestmark = pytest.mark.django_db

HELD = [None, "discover", "select", "operate", "viewer", "operator", "manage", "editor"]
MANAGING = {"manage", "editor"}


@pytest.mark.parametrize("held", HELD)
def test_an_onboarding_is_seen_by_who_sees_its_source(world, admin, ann, held) -> None:
    make_tables(world.source, ["orders"])
    body = {"datasource": "shop", "include": ["public.*"]}
    one = f"onboardings/{admin('POST', 'onboardings', body).json()['id']}"
    grants_now(held)
    seen = 404 if held is None else 200
    assert ann("GET", one).status_code == seen
    assert len(ann("GET", "onboardings").json()["items"]) == (held is not None)
    denied = 404 if held is None else 403
    allowed = held in MANAGING
    ask = {**body, "dry_run": True}
    assert ann("POST", "onboardings", ask).status_code in (
        {200, 400} if allowed else {denied}
    )
    approved = ann("POST", f"{one}:approve").status_code
    assert approved == (202 if allowed else denied)


def test_config_promises_what_is_there(admin) -> None:
    can = admin("GET", "config").json()["capabilities"]
    kinds = admin("GET", "datasources/kinds").json()["items"]
    assert can["kinds"] == [k["kind"] for k in kinds if k["is_available"]]
    for capture in can["captures"]:
        asked = {"datasource": "x", "include": ["*"], "capture": capture}
        assert parse_request(asked).capture == capture
    with pytest.raises(InvalidRequest):
        parse_request({"datasource": "x", "include": ["*"], "capture": "log"})
    forms = {"every_seconds": {"every_seconds": 5}, "cron": {"cron": "0 1 * * *"}}
    for name in can["schedules"]:
        asked = {"datasource": "x", "include": ["*"], "schedule": forms.get(name, name)}
        assert parse_request(asked).schedule is not None
    for name in can["roles"]:
        grant = {"principal": "group:x", "role": name, "on": "lake"}
        assert admin("POST", "grants", grant).status_code == 201
    routes = {route for _, route, _ in live_routes()}
    assert ("jobs/<uuid:job_id>/events" in routes) is can["job_events"]
    assert ("tables/<id:table_id>:verify" in routes) is can["verify"]
    assert ("sql/statements" in routes) is can["statements"]
    assert can["logins"] == ["password", "token"]
    assert Choices().lake is None
