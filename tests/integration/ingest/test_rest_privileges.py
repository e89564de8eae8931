"""Onboardings want their privileges; and /config tells what is really there."""

from __future__ import annotations

import pytest
from django.db import transaction

from ingest.alerts.chat import CHATS
from ingest.alerts.mail import Smtp
from ingest.alerts.targets import TARGET_KINDS
from ingest.pipelines.requests import parse_request
from tests.integration.catalog.asking import grants_now, live_routes
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.integration.ingest.world import make_source, make_tables

pytestmark = pytest.mark.django_db

HELD = [None, "discover", "select", "operate", "viewer", "operator", "manage", "editor"]
MANAGING = {"manage", "editor"}


def test_an_onboarding_is_seen_by_who_sees_its_source(admin, ann) -> None:
    make_tables(make_source(), ["orders"])
    body = {"datasource": "shop", "include": ["public.*"]}
    one = f"onboardings/{admin('POST', 'onboardings', body).json()['id']}"
    for held in HELD:
        grants_now(held)
        denied = 404 if held is None else 403
        may = held in MANAGING
        assert ann("GET", one).status_code == (404 if held is None else 200), held
        listed = ann("GET", "onboardings").json()["items"]
        assert len(listed) == (held is not None), held
        asked = ann("POST", "onboardings", {**body, "dry_run": True})
        assert asked.status_code == (200 if may else denied), held
        with transaction.atomic():
            approved = ann("POST", f"{one}:approve")
            transaction.set_rollback(True)
        assert approved.status_code == (202 if may else denied), held
        with transaction.atomic():
            discarded = ann("POST", f"{one}:discard")
            transaction.set_rollback(True)
        assert discarded.status_code == (200 if may else denied), held


def test_config_promises_what_is_there(admin, settings) -> None:
    can = admin("GET", "config").json()["capabilities"]
    kinds = admin("GET", "datasources/kinds").json()["items"]
    assert can["kinds"] == [k["kind"] for k in kinds]
    for capture in can["captures"]:
        asked = {"datasource": "x", "include": ["*"], "capture": capture}
        assert parse_request(asked).capture == capture
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
    for verb in can["repairs"]:
        assert f"tables/<id:table_id>:{verb}" in routes
    assert ("sql/statements" in routes) is can["statements"]
    assert can["logins"] == ["password", "token"]
    assert can["alert_targets"] == ["webhook", *CHATS], "no mail server is set"
    settings.SLUICE_SMTP = Smtp("mail.example", 25, tls="off")
    can = admin("GET", "config").json()["capabilities"]
    assert can["alert_targets"] == list(TARGET_KINDS)
