"""Tables that come to a source after its onboarding."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.db.models.functions import Now

from catalog.models import Datasource, Table
from core.errors import InvalidRequest
from ingest.models import Onboarding, Pipeline
from ingest.pipelines import new_tables
from ingest.pipelines.new_tables import take_new_tables
from ingest.pipelines.onboarding import start_onboarding
from ingest.pipelines.policies.store import change_policy, change_table_policy
from ingest.pipelines.requests import parse_request
from tests.integration.ingest.world import ANN, World, make_tables

pytestmark = pytest.mark.django_db


@pytest.fixture
def onboarded(world: World) -> World:
    """Of `public.ord*`, approved by an administrator, with what there is by now."""
    User.objects.create(username=ANN.name, is_superuser=True)
    make_tables(world.source, ["orders", "parts"])
    body = {
        "datasource": world.source.name,
        "include": ["public.ord*"],
        "capture": "snapshot",
        "approve": True,
    }
    start_onboarding(parse_request(body), principal=ANN)
    discovered(world)
    assert take_new_tables() == 0
    return world


def discovered(world: World) -> None:
    Datasource.objects.filter(pk=world.source.pk).update(discovered_at=Now())


def states(world: World) -> dict[str, str]:
    rows = Pipeline.objects.values_list("source_table__name", "state")
    return dict(rows)


def appear(world: World, *names: str) -> int:
    make_tables(world.source, list(names))
    discovered(world)
    return take_new_tables()


def test_they_join_once_with_what_the_onboarding_gives(onboarded: World) -> None:
    change_policy(onboarded.source, None, {"new_tables": "join"})
    assert appear(onboarded, "ord_items", "people") == 1
    assert states(onboarded).keys() == {"orders", "ord_items"}
    newest = Onboarding.objects.get(tables__source_table__name="ord_items")
    assert (newest.requested_by, newest.approved_by) == (ANN.name, ANN.name)
    assert newest.request["capture"] == "snapshot"
    discovered(onboarded)
    assert take_new_tables() == 0
    onboarded.until_live("orders", "ord_items")


def test_one_whose_log_cannot_be_followed_waits_for_that(world: World) -> None:
    """It was LIVE by timestamp without a schedule, and nobody was asked."""
    User.objects.create(username=ANN.name, is_superuser=True)
    make_tables(world.source, ["orders"])
    body = {
        "datasource": world.source.name,
        "include": ["public.*"],
        "tables": {"public.orders": {"capture": "log"}},
        "approve": True,
    }
    start_onboarding(parse_request(body), principal=ANN)
    change_policy(world.source, None, {"new_tables": "join"})
    (table,) = make_tables(world.source, ["parts"])
    lacking = {**table.identity, "log_lacks": [["its log is off", "SET log = ON;"]]}
    Table.objects.filter(pk=table.pk).update(identity=lacking)
    discovered(world)
    assert take_new_tables() == 1
    assert {p.source_table.name: p.capture for p in Pipeline.objects.all()} == {
        "orders": "log",
        "parts": "log",
    }
    parts = Pipeline.objects.get(source_table__name="parts")
    assert parts.state == "PROPOSED"
    assert "its log is off" in parts.status_reason


def test_tables_that_are_not_meant_hide_none(
    onboarded: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many of them there are; of those that are, some come later."""
    monkeypatch.setattr(new_tables, "MOST_TABLES", 1)
    change_policy(onboarded.source, None, {"new_tables": "ask"})
    assert appear(onboarded, "people", "ord_items", "ord_notes") == 1
    discovered(onboarded)
    assert take_new_tables() == 1
    assert states(onboarded).keys() == {"orders", "ord_items", "ord_notes"}


def test_they_wait_for_an_approval(onboarded: World) -> None:
    change_policy(onboarded.source, None, {"new_tables": "ask"})
    assert appear(onboarded, "ord_items") == 1
    assert states(onboarded)["ord_items"] == "PROPOSED"


def test_they_are_left_alone(onboarded: World) -> None:
    assert appear(onboarded, "ord_items") == 0
    assert states(onboarded).keys() == {"orders"}


@pytest.mark.parametrize("gone", ["deleted", "disabled", "demoted"])
def test_who_may_not_approve_any_more_lets_nothing_join(
    onboarded: World, gone: str
) -> None:
    user = User.objects.filter(username=ANN.name)
    if gone == "deleted":
        user.delete()
    elif gone == "disabled":
        user.update(is_active=False)
    else:
        user.update(is_superuser=False)
    change_policy(onboarded.source, None, {"new_tables": "join"})
    assert appear(onboarded, "ord_items") == 1
    assert states(onboarded)["ord_items"] == "PROPOSED"


def test_one_that_was_removed_does_not_come_back(onboarded: World) -> None:
    Pipeline.objects.update(state="RETIRED")
    change_policy(onboarded.source, None, {"new_tables": "join"})
    discovered(onboarded)
    assert take_new_tables() == 0


def test_a_table_has_no_say_in_it(onboarded: World) -> None:
    onboarded.until_live("orders")
    with pytest.raises(InvalidRequest, match="unknown field 'new_tables'"):
        change_table_policy(onboarded.pipeline("orders"), {"new_tables": "join"})


def test_a_plan_that_the_source_kept_back_is_made_anew(world: World) -> None:
    """Its statement was run there and the source discovered again, as the plan asks;
    the plan said the same for ever."""
    (table,) = make_tables(world.source, ["orders"])
    lacking = {**table.identity, "log_lacks": [["its log is off", "SET log = ON;"]]}
    Table.objects.filter(pk=table.pk).update(identity=lacking)
    discovered(world)
    body = {
        "datasource": world.source.name,
        "include": ["public.orders"],
        "capture": "log",
        "approve": True,
    }
    start_onboarding(parse_request(body), principal=ANN)
    take_new_tables()
    assert "its log is off" in Pipeline.objects.get().status_reason
    Table.objects.filter(pk=table.pk).update(identity=table.identity)
    discovered(world)
    take_new_tables()
    pipeline = Pipeline.objects.get()
    assert (pipeline.state, pipeline.capture) == ("PROPOSED", "log")
    assert "its log is off" not in pipeline.status_reason
