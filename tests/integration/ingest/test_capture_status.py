"""How log capture of a source is shown, started and stopped, and by whom."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from catalog.access import grants
from catalog.models import AuditEntry, Table
from config.supervisor import doctor
from config.supervisor.home import Home
from config.supervisor.supervisor import reported_pids
from core.processes.identity import write_identity
from ingest.models import Pipeline, SourceFollower
from ingest.pipelines import followers
from tests.integration.catalog.conftest import *  # noqa: F403  the same people

pytestmark = pytest.mark.django_db
PATH = "datasources/shop/capture"


@pytest.fixture
def followed(world: Any) -> Any:
    """A source with two tables that are read from its log, and a reader that reports."""
    world.onboard("orders", "items", "other")
    log = Pipeline.objects.exclude(source_table__name="other")
    log.update(capture="log", state="LIVE")
    SourceFollower.objects.create(
        datasource=world.source,
        observed="following",
        heartbeat_at=timezone.now(),
        position="lsn:7:1:0/50",
        number=12,
        rows_per_second=3.5,
        waiting_bytes=1 << 60,
        log_kept=100,
        log_safe=5,
        log_status="reserved",
    )
    return world


def change(world: Any, **facts: Any) -> None:
    SourceFollower.objects.filter(datasource=world.source).update(**facts)


def test_the_shape_of_the_reply(followed: Any, admin: Any) -> None:
    now = timezone.now()
    orders = followed.lake("orders")
    Table.objects.filter(pk=orders.pk).update(
        caught_up_at=now - timedelta(seconds=60),
        last_commit_position={"to": "lsn:7:1:0/40"},
    )
    row = Pipeline.objects.filter(lake_table=orders)
    row.update(waiting=3, waiting_since=now, changes_per_second=2.5)
    body = admin("GET", PATH).json()
    assert (body["desired"], body["observed"]) == ("RUNNING", "following")
    assert body["position"] == "lsn:7:1:0/50"
    assert body["lag_bytes"] == 0
    assert body["waiting"]["epochs"] == 3
    assert body["waiting"]["bytes"] == str(1 << 60)
    assert body["waiting"]["oldest_at"].startswith(f"{now:%Y-%m-%d}")
    assert body["source_log"] == {
        "kept_bytes": 100, "safe_bytes": 5, "status": "reserved"
    }  # fmt: skip
    items, shown = body["tables"]
    assert shown.pop("lag_seconds") >= 60
    assert shown == {
        "table": orders.pk,
        "name": "lake.shop.orders",
        "state": "LIVE",
        "reason": "",
        "applied_position": "lsn:7:1:0/40",
        "changes_per_second": 2.5,
        "waiting": 3,
        "lossy": {},
    }
    assert items["name"] == "lake.shop.items"


def test_a_reader_that_is_behind_shows_the_source_as_of_what_is_durable(
    followed: Any, admin: Any
) -> None:
    committed = timezone.now() - timedelta(seconds=500)
    change(followed, log_behind=1 << 30, committed_at=committed)
    body = admin("GET", PATH).json()
    assert body["lag_bytes"] == 1 << 30
    assert body["lag_seconds"] >= 500


def test_silence_of_the_host_is_a_state_with_what_to_do(
    followed: Any, admin: Any
) -> None:
    change(followed, written_at=timezone.now() - timedelta(minutes=2))
    body = admin("GET", PATH).json()
    assert body["observed"] == "silent"
    assert "no host of followers wrote" in body["reason"]
    assert "manage.py followers" in body["hint"]
    change(followed, desired="STOPPED", observed="stopped")
    assert admin("GET", PATH).json()["observed"] == "stopped"


def test_who_sees_and_does_what(followed: Any, admin: Any, ann: Any) -> None:
    change(followed, reason="table public.items lacks a key", hint="give it one")
    assert ann("GET", PATH).status_code == 404
    assert ann("POST", "datasources/shop:stop-capture").status_code == 404
    give = {"principal": "user:ann", "by": "t"}
    grants.grant(privilege="discover", on="shop.public.orders", **give)
    grants.grant(privilege="discover", on="lake.shop.orders", **give)
    body = ann("GET", PATH).json()
    assert [one["name"] for one in body["tables"]] == ["lake.shop.orders"]
    assert (body["reason"], body["hint"]) == ("", ""), "they may name other tables"
    grants.grant(privilege="discover", on="shop", **give)
    assert ann("GET", PATH).json()["hint"] == "give it one"
    assert ann("POST", "datasources/shop:stop-capture").status_code == 403
    grants.grant(privilege="operate", on="shop", **give)
    answer = ann("POST", "datasources/shop:stop-capture")
    assert (answer.status_code, answer.json()["desired"]) == (200, "STOPPED")
    assert ann("POST", "datasources/shop:start-capture").json()["desired"] == "RUNNING"
    actions = AuditEntry.objects.filter(object="shop").values_list("action", flat=True)
    assert {"capture.stop", "capture.start"} <= set(actions)


def test_a_lost_log_is_begun_anew_by_decision_only(followed: Any, admin: Any) -> None:
    start = "datasources/shop:start-capture"
    refused = admin("POST", start, {"begin_anew": True})
    assert (refused.status_code, refused.json()["code"]) == (400, "nothing_lost")
    change(followed, observed="failed", code="log_lost")
    assert admin("POST", start, {"begin_anew": True}).status_code == 200
    assert SourceFollower.objects.get().begin_anew
    assert admin("POST", "datasources/shop:stop-capture").status_code == 200
    assert not SourceFollower.objects.get().begin_anew


def test_a_source_without_log_tables(world: Any, admin: Any) -> None:
    world.onboard("orders")
    body = admin("GET", PATH).json()
    assert body["reason"] == "no table of this source is followed by its log"
    assert (body["tables"], body["lag_seconds"]) == ([], None)
    for verb in ("start-capture", "stop-capture"):
        answer = admin("POST", f"datasources/shop:{verb}")
        assert (answer.status_code, answer.json()["code"]) == (400, "not_followed")
    assert admin("GET", "datasources/lake/capture").status_code == 400
    assert not SourceFollower.objects.exists()


def test_starting_again_is_a_request_of_its_own(followed: Any, admin: Any) -> None:
    change(followed, desired_at=Now() - timedelta(hours=1))
    before = SourceFollower.objects.get().desired_at
    assert admin("POST", "datasources/shop:start-capture").status_code == 200
    assert SourceFollower.objects.get().desired_at > before


def test_each_source_with_log_tables_has_a_row(followed: Any) -> None:
    SourceFollower.objects.all().delete()
    (row,) = followers.followers_of_sources()
    assert (row.datasource_id, row.desired) == (followed.source.pk, "RUNNING")
    Pipeline.objects.update(state="REMOVING")
    assert followers.is_followed(followed.source), "its end has to be in the stream"
    Pipeline.objects.update(state="RETIRED")
    assert not followers.followers_of_sources()


def test_the_doctor_says_whose_log_is_not_read(followed: Any) -> None:
    (line,) = doctor.captures()
    assert (line.is_ok, line.text) == (True, "shop: following")
    change(followed, observed="failed", reason="slot lost", hint="begin anew")
    (line,) = doctor.captures()
    assert (line.text, line.advice) == ("shop: failed, slot lost", "begin anew")
    change(followed, desired="STOPPED", observed="stopped", reason="", hint="")
    assert doctor.captures()[0].is_ok


def test_connection_json_names_the_readers_that_live(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.run.mkdir(parents=True)
    write_identity(home.run / "follower-7.pid.json", os.getpid(), "follower")
    (home.run / "follower-8.pid.json").write_text('{"pid": 1, "start_time": 1.0}')
    assert reported_pids(home)["captures"] == [os.getpid()]
