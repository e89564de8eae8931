"""Partial updates from the request to the table: chosen, shown, told apart, fixed."""

from __future__ import annotations

import pytest

from ingest.pipelines import sampling
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.integration.ingest.world import make_tables

pytestmark = pytest.mark.django_db

BODY = {"datasource": "shop", "include": ["public.*"], "capture": "timestamp"}
PARTIAL = {"tables": {"public.orders": {"updates": "partial"}}}


def test_the_choice_is_planned_pinned_and_shown(world, admin) -> None:
    make_tables(world.source, ["orders", "items"])
    dry = admin("POST", "onboardings", {**BODY, **PARTIAL, "dry_run": True}).json()
    plans = {t["source"]: t["plan"] for t in dry["tables"]}
    told = [w for w in plans["public.orders"]["warnings"] if "partial updates" in w]
    assert len(told) == 4
    assert plans["public.items"]["proposals"]["updates"]["value"] == "full"

    made = admin("POST", "onboardings", {**BODY, **PARTIAL, "approve": True})
    assert made.status_code == 202, made.content
    world.until_live("orders", "items")
    shown = {}
    for name in ("orders", "items"):
        table = world.lake(name)
        shown[name] = admin("GET", f"tables/{table.pk}").json()["updates"]
        spec = next(s for s in world.launcher.submitted if s.table.table_id == table.pk)
        assert spec.table.updates == shown[name]
    assert shown == {"orders": "partial", "items": "full"}
    pinned = world.lake("orders").identity
    assert pinned["partial_update_mode"] == "IGNORE_DEFAULTS"
    assert world.lake("items").identity["partial_update_mode"] == ""
    source = admin("GET", f"tables/{world.pipeline('orders').source_table_id}").json()
    assert source["updates"] is None


def test_it_stays_what_it_is(world, admin) -> None:
    world.onboard("orders", **PARTIAL)
    make_tables(world.source, ["items"])
    for updates, status in (("full", 400), ("partial", 202)):
        tables = {"public.orders": {"updates": updates}}
        made = admin("POST", "onboardings", {**BODY, "tables": tables})
        assert made.status_code == status, made.content
        if status == 400:
            body = made.json()
            assert body["code"] == "updates_fixed"
            assert body["errors"][0]["pointer"] == "/tables/public.orders/updates"
            assert "partial updates, not with full ones" in body["detail"]


def test_loaded_once_has_none(world, admin) -> None:
    make_tables(world.source, ["orders"])
    refused = admin("POST", "onboardings", {**BODY, **PARTIAL, "capture": "snapshot"})
    assert refused.status_code == 400
    assert refused.json()["code"] == "invalid_updates"


def test_a_sample_is_queried_and_not_read_from_files(world, monkeypatch) -> None:
    world.onboard("orders", **PARTIAL)
    world.until_live("orders")
    asked: list[str] = []

    def query(user: str, sql: str, limit: int) -> list[list[object]]:
        asked.append(sql)
        return [[1, "kept", None]]

    monkeypatch.setattr(sampling.registered, "query", query)
    found = sampling.sample_for("ann", world.lake("orders"), limit=5)
    assert found.rows == [[1, "kept", None]]
    assert len(asked) == 1
