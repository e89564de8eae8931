"""A new action is one object: REST, page and /config have it without a word more."""

from __future__ import annotations

import importlib
import json

import pytest
from django.urls import clear_url_caches
from drf_spectacular.generators import SchemaGenerator

from ingest.actions import registry
from ingest.api import urls
from ingest.maintenance.repair_previews import Preview
from ingest.maintenance.table_action import DRY_RUN, QUERYABLE, Field, Request
from ingest.maintenance.table_action import TableAction as Action
from ingest.models import Pipeline
from ingest.pipelines.transitions import pipeline_of

pytestmark = pytest.mark.django_db


def paint(table, *, actor: str, colour: str = "red", coats: int = 1) -> Pipeline:
    pipeline = pipeline_of(table.pk)
    pipeline.status_reason = f"{coats} coats of {colour} by {actor}"
    pipeline.save(update_fields=["status_reason"])
    return pipeline


def preview(table, *, colour: str = "red", coats: int = 1) -> Preview:
    return Preview(str(table), "paint", (), (f"It gets {coats} coats of {colour}",))


PAINT = Action(
    name="paint",
    title="Paint",
    icon="table",
    group="sync",
    does="Paints the table.",
    blocks="Nothing.",
    undo="Paint it again.",
    states=QUERYABLE,
    request=Request(
        "PaintNew",
        (
            Field(
                "colour",
                "choice",
                label="Colour",
                choices=(("red", "Red"), ("blue", "Blue")),
                changes_preview=True,
            ),
            Field("coats", "whole", label="Coats", least=1, most=9),
            DRY_RUN,
        ),
    ),
    preview=preview,
    run=paint,
)


@pytest.fixture
def table(world, monkeypatch):
    monkeypatch.setitem(registry.ACTIONS, "paint", PAINT)
    again()
    yield world.lake_tables["orders"]
    monkeypatch.undo()
    again()


def again() -> None:
    """Routes are made of the list once, at start."""
    for module in (urls, importlib.import_module("config.urls")):
        importlib.reload(module)
    clear_url_caches()


def test_it_is_a_verb_with_checked_members_and_a_preview(table, browse) -> None:
    client = browse("root")
    address = f"/api/v1/tables/{table.pk}:paint"

    def post(body):
        return client.post(address, json.dumps(body), "application/json")

    dry = post({"colour": "blue", "coats": 2, "dry_run": True})
    assert dry.status_code == 200, dry.content
    assert dry.json()["will"] == ["It gets 2 coats of blue"]
    wrong = post({"colour": "green", "coats": 10, "dry_run": 1})
    assert wrong.status_code == 400
    pointers = {error["pointer"] for error in wrong.json()["errors"]}
    assert pointers == {"/colour", "/coats", "/dry_run"}, "all mistakes at once"
    assert post({"colours": "red"}).json()["code"] == "unknown_field"
    done = post({"coats": 3})
    assert done.status_code == 202
    assert done.json()["status_reason"] == "3 coats of red by root"


def test_it_has_a_button_and_a_page_that_asks_first(table, browse) -> None:
    Pipeline.objects.filter(lake_table=table).update(state="LIVE")
    client = browse("root")
    address = f"/tables/{table.pk}/paint"
    assert f'href="{address}"' in client.get(f"/tables/{table.pk}").content.decode()
    page = client.get(address, {"colour": "blue"}).content.decode()
    for text in ("Paints the table.", "Paint it again.", "It gets 1 coats of blue."):
        assert text in page
    assert 'name="coats"' in page
    asked = client.post(address, {"colour": "blue", "coats": "4"})
    assert asked.status_code == 302
    assert pipeline_of(table.pk).status_reason == "4 coats of blue by root"


def test_openapi_describes_it_with_an_example(table) -> None:
    document = SchemaGenerator().get_schema(public=True)
    spec = document["paths"]["/api/v1/tables/{table_id}:paint"]["post"]
    assert (spec["operationId"], spec["summary"]) == ("postPaint", "Paints the table")
    content = spec["requestBody"]["content"]["application/json"]
    assert content["schema"]["$ref"].endswith("/PaintNew")
    (example,) = content["examples"].values()
    assert example["value"] == {"colour": "red", "coats": 1, "dry_run": True}
    assert {"200", "202"} <= set(spec["responses"])


def test_config_lists_it(table, browse) -> None:
    config = browse("root").get("/api/v1/config").json()
    (listed,) = [a for a in config["table_actions"] if a["name"] == "paint"]
    assert listed["path"] == "/api/v1/tables/{table_id}:paint"
    assert [each["name"] for each in listed["request"]] == [
        "colour",
        "coats",
        "dry_run",
    ]
    assert "paint" not in config["capabilities"]["repairs"]


@pytest.mark.parametrize(
    ("capture", "is_offered"),
    [("timestamp", True), ("snapshot", False), ("log", False)],
)
def test_a_sync_is_offered_where_there_is_one(capture: str, is_offered: bool) -> None:
    row = Pipeline(capture=capture, state="LIVE")
    assert registry.ACTIONS["sync"].is_offered_to(row) is is_offered
