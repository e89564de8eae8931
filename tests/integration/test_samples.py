"""Samples that the files' reader cannot give: REST and page ask the gateway, and wait
for an engine that has yet to start."""

from __future__ import annotations

import pytest
from django.core.cache import cache
from django.test import Client

from catalog.access.users import create_user
from catalog.models import Column
from config import samples
from gateway.engines.port import EngineColumn
from gateway.hs2.values import TypeId
from tests.doubles.engine import FakeAnswer
from tests.integration.catalog.conftest import add_table
from tests.integration.gateway.conftest import *  # noqa: F403  a running gateway
from tests.integration.gateway.running import SECRET
from tests.waiting import wait_for

ROW = [7, "a note", "2024-03-01 12:00:00.5"]
SHOWN = [7, "a note", "2024-03-01T12:00:00.500000"]
COLUMNS = [
    EngineColumn("id", TypeId.BIGINT),
    EngineColumn("note", TypeId.STRING),
    EngineColumn("at", TypeId.TIMESTAMP),
]


@pytest.fixture
def orders(transactional_db):
    """A lake table with a timestamp without zone, at which the reader would panic."""
    from catalog.datasources import lake_database

    table = add_table(lake_database("shop"), "orders", lake=True)
    Column.objects.create(
        table=table,
        position=3,
        name="at",
        source_name="at",
        source_type="timestamp without time zone",
        type="timestamp_ntz",
    )
    return table


@pytest.fixture(autouse=True)
def _no_statement_under_way():
    cache.clear()


@pytest.fixture
def browser(gateway, settings, orders):
    """An administrator's, logged in."""
    settings.STATIC_ROOT.mkdir(exist_ok=True)
    settings.SLUICE_GATEWAY_INTERNAL = str(gateway.internal_file)
    settings.SLUICE_SERVICE_SECRET = SECRET
    gateway.engine.answers = lambda sql: FakeAnswer(COLUMNS, [ROW])
    client = Client()
    admin = create_user("root", "correct horse battery", is_admin=True, by="test")
    client.force_login(admin, backend="catalog.access.backend.SluiceBackend")
    return client


def test_rest_and_page_show_the_same_rows(browser, gateway, orders) -> None:
    reply = browser.get(f"/api/v1/tables/{orders.pk}/sample?limit=3")
    assert reply.status_code == 200, reply.content
    body = reply.json()
    assert [c["type"] for c in body["columns"]] == [
        "bigint",
        "string",
        "timestamp_ntz",
    ]
    assert body["rows"] == [SHOWN]
    assert (
        "root",
        "SELECT `id`, `note`, `at` FROM `shop`.`orders` LIMIT 3",
    ) in gateway.engine.journal
    page = browser.get(f"/tables/{orders.pk}/sample").content.decode()
    assert SHOWN[2] in page
    assert "hx-trigger" not in page


def test_a_sample_waits_for_an_engine_that_starts(
    browser, gateway, orders, monkeypatch
) -> None:
    """REST says when to ask again; the page asks again by itself until rows come."""
    monkeypatch.setattr(samples, "WAIT_SECONDS", 0.2)
    gateway.engine.faults.start_seconds = 3600
    gateway.do(gateway.engine.die)
    reply = browser.get(f"/api/v1/tables/{orders.pk}/sample")
    assert (reply.status_code, reply.json()["code"]) == (503, "rows_late")
    assert int(reply["Retry-After"]) > 0
    url = f"/tables/{orders.pk}/sample"
    page = browser.get(url).content.decode()
    assert f'hx-get="{url}"' in page
    assert 'hx-trigger="load delay' in page
    assert "engine is starting" in page
    gateway.engine.faults.start_seconds = 0
    wait_for(lambda: SHOWN[2] in browser.get(url).content.decode(), "the rows")
    assert len(gateway.engine.journal) > 0


def test_who_asks_again_takes_the_statement_up(
    browser, gateway, orders, monkeypatch
) -> None:
    """A first statement may take longer than a request may: it must not begin anew."""
    monkeypatch.setattr(samples, "WAIT_SECONDS", 0.2)
    gateway.engine.answers = lambda sql: FakeAnswer(COLUMNS, [ROW], seconds=3600)
    url = f"/api/v1/tables/{orders.pk}/sample"
    for _ in range(3):
        assert browser.get(url).status_code == 503
    gateway.do(gateway.engine.finish)
    wait_for(lambda: browser.get(url).status_code == 200, "the rows")
    assert len(gateway.engine.journal) == 1


def test_statements_that_take_too_long_are_cancelled(
    browser, gateway, orders, monkeypatch
) -> None:
    monkeypatch.setattr(samples, "WAIT_SECONDS", 0.2)
    gateway.engine.answers = lambda sql: FakeAnswer(COLUMNS, [ROW], seconds=3600)
    url = f"/api/v1/tables/{orders.pk}/sample"
    assert browser.get(url).json()["code"] == "rows_late"
    monkeypatch.setattr(samples, "LONGEST_SECONDS", 0)
    assert browser.get(url).json()["code"] == "lake_unreadable"
    statements = gateway.gateway.statements
    assert [s.is_cancelled for s in statements._statements.values()] == [True]


@pytest.mark.parametrize("is_gone", [False, True])
def test_without_rows_there_is_a_reason(
    browser, gateway, orders, settings, is_gone
) -> None:
    gateway.engine.answers = lambda sql: FakeAnswer(error="no such file")
    if is_gone:
        settings.SLUICE_GATEWAY_INTERNAL = "/nowhere/at/all"
    reply = browser.get(f"/api/v1/tables/{orders.pk}/sample")
    code = "gateway_unavailable" if is_gone else "lake_unreadable"
    assert (reply.status_code, reply.json()["code"]) == (503, code)


def test_wide_rows_are_sampled_over_pages_and_not_without_end(
    browser, gateway, orders
) -> None:
    wide = [[n, "x" * 1_100_000, ROW[2]] for n in range(7)]
    gateway.engine.answers = lambda sql: FakeAnswer(COLUMNS, wide)
    body = browser.get(f"/api/v1/tables/{orders.pk}/sample?limit=7").json()
    assert [row[0] for row in body["rows"]] == [0, 1, 2, 3]
    assert len(body["rows"]) == samples.MOST_PAGES
