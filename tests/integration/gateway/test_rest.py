"""Statements over REST: Django's API in this process, the gateway behind it."""

from __future__ import annotations

import dataclasses
import http.client
import json

import pytest
from rest_framework.test import APIClient

from catalog.access.principal_policy import ReadTables
from gateway import statement_service
from gateway.engines.port import EngineColumn
from gateway.faults import waiting_for
from gateway.hs2.values import TypeId
from gateway.rows import ResultFile
from tests.doubles.engine import FakeAnswer
from tests.integration.gateway.running import SECRET
from tests.waiting import wait_for

URL = "/api/v1/sql/statements"
NUMBERED = [EngineColumn("n", TypeId.INT), EngineColumn("t", TypeId.STRING)]


def test_a_short_statement_answers_at_once(rest):
    ann = rest("ann")
    reply = ann.post(URL, {"sql": "SELECT 7", "wait_seconds": 10}, format="json")
    assert reply.status_code == 200, reply.content
    body = reply.json()
    assert (body["state"], body["rows_so_far"], body["error"]) == ("FINISHED", 1, None)
    assert body["columns"] == [{"name": "7", "type": "int"}]
    results = ann.get(f"{URL}/{body['id']}/results").json()
    assert results == {
        "columns": body["columns"],
        "rows": [[7]],
        "next_page_token": None,
    }


def test_pages_cover_the_result_up_to_the_row_limit(rest):
    ann = rest("ann")
    asked = {"sql": "SELECT * FROM range(5000)", "wait_seconds": 20, "row_limit": 1700}
    body = ann.post(URL, asked, format="json").json()
    assert (body["rows_so_far"], body["is_truncated"]) == (1700, True)
    rows, token = [], ""
    while token is not None:
        page = ann.get(f"{URL}/{body['id']}/results", {"page_token": token}).json()
        rows += page["rows"]
        token = page["next_page_token"]
    assert [row[0] for row in rows] == list(range(1700))


def test_without_a_limit_all_rows_are_there_and_pages_of_wide_ones_are_shorter(
    rest, gateway
):
    rows = [(n, "ü" * 150_000) for n in range(8)]
    gateway.engine.answers = lambda sql: FakeAnswer(NUMBERED, rows)
    ann = rest("ann")
    body = ann.post(URL, {"sql": "wide", "wait_seconds": 20}, format="json").json()
    assert (body["rows_so_far"], body["is_truncated"]) == (8, False)
    pages, token = [], ""
    while token is not None:
        reply = ann.get(f"{URL}/{body['id']}/results", {"page_token": token})
        assert reply.json().keys() == {"columns", "rows", "next_page_token"}
        pages.append(reply.json()["rows"])
        token = reply.json()["next_page_token"]
    assert [len(page) for page in pages] == [4, 4]
    assert [tuple(row) for page in pages for row in page] == rows
    beyond = ann.get(f"{URL}/{body['id']}/results", {"page_token": "p3"}).json()
    assert (beyond["rows"], beyond["next_page_token"]) == ([], None)
    file = ann.get(f"{URL}/{body['id']}/results", {"format": "csv"})
    assert b"".join(file.streaming_content).count(b"\r\n") == 9


def test_an_error_is_part_of_the_statement(rest):
    ann = rest("ann")
    reply = ann.post(URL, {"sql": "SELEC 1", "wait_seconds": 10}, format="json")
    body = reply.json()
    assert body["state"] == "ERROR"
    assert body["error"]["sql_state"] == "42601"
    assert "PARSE_SYNTAX_ERROR" in body["error"]["message"]
    assert ann.get(f"{URL}/{body['id']}/results").status_code == 409


def test_a_long_statement_is_202_and_can_be_cancelled(rest, gateway):
    gateway.engine.answers = lambda sql: FakeAnswer(seconds=60)
    ann = rest("ann")
    reply = ann.post(URL, {"sql": "select slow"}, format="json")
    assert reply.status_code == 202
    one = f"{URL}/{reply.json()['id']}"
    odd = ann.post(f"{one}:cancel", {"dry_run": True}, format="json")
    assert (odd.status_code, odd.json()["code"]) == (400, "unknown_field")
    assert ann.post(f"{one}:cancel").json()["state"] == "CANCELED"
    assert ann.post(f"{one}:cancel").json()["state"] == "CANCELED"
    assert ann.get(one).json()["state"] == "CANCELED"


def test_a_statement_that_waits_in_the_engine_tells_for_what(rest, gateway):
    why = waiting_for(
        "waits for a connection to shop_pg: statements of yours have 4 of 4, those of"
        " others 0"
    )
    gateway.engine.answers = lambda sql: FakeAnswer(seconds=60, waits=why)
    ann = rest("ann")
    reply = ann.post(URL, {"sql": "select slow", "wait_seconds": 0}, format="json")
    one = f"{URL}/{reply.json()['id']}"
    told = wait_for(
        lambda: (body := ann.get(one).json())["state"] == "RUNNING" and body, "its run"
    )
    assert (told["waits_for"], told["progress"]["tasks"]) == (why, 1)
    assert "waits_for" not in told["progress"]
    chinese = ann.get(one, headers={"Accept-Language": "zh-hans"}).json()
    assert chinese["waits_for"].startswith("正在等待与 shop_pg 的连接")
    assert ann.post(f"{one}:cancel").json()["waits_for"] is None


def test_a_full_disk_of_results_is_said_and_the_next_one_finds_room(
    rest, gateway, monkeypatch
):
    def on_a_full_disk(path):
        path.symlink_to("/dev/full")
        return ResultFile(path)

    ann = rest("ann")
    asked = {"sql": "SELECT * FROM range(2000)", "wait_seconds": 20}
    with monkeypatch.context() as full:
        full.setattr(statement_service, "ResultFile", on_a_full_disk)
        body = ann.post(URL, asked, format="json").json()
    assert (body["state"], body["error"]["sql_state"]) == ("ERROR", "53100")
    assert "free space" in body["error"]["message"]
    reply = ann.get(f"{URL}/{body['id']}/results")
    assert (reply.status_code, reply.json()["code"]) == (409, "no_result")
    # what was written is gone at once: it is others' room
    assert not list(gateway.gateway.statements._directory.iterdir())
    body = ann.post(URL, asked, format="json").json()
    assert (body["state"], body["rows_so_far"]) == ("FINISHED", 2000)


@pytest.fixture
def one_after_another(rest, gateway, monkeypatch):
    """Runs statements of ann; each answers once the one before has ended its session."""

    async def visible(user, pattern, *, limit):
        return [pattern]

    monkeypatch.setattr(gateway.gateway.store, "databases", visible)
    gateway.engine.read = ReadTables(1, {})
    ann, sessions = rest("ann"), gateway.gateway.services.idle

    def run(sql, *, is_kept, **more):
        body = ann.post(URL, {"sql": sql, "wait_seconds": 20, **more}, format="json")
        wait_for(
            lambda: len(gateway.engine.sessions) == len(sessions) == is_kept,
            "its session to be left or closed",
        )
        return body.json()["state"]

    return run


def test_queries_run_in_one_engine_session_after_another(one_after_another, gateway):
    run, engine = one_after_another, gateway.engine
    assert run("SELECT 1", is_kept=True) == "FINISHED"
    assert run("SELECT 2", is_kept=True, database="shop") == "FINISHED"
    assert run("SELECT 3", is_kept=True) == "FINISHED"
    statements = ["SELECT 1", "USE `shop`", "SELECT 2", "USE `default`", "SELECT 3"]
    assert [sql for _, sql in engine.journal] == statements
    assert len(engine.configurations) == 1
    # nor does a dead one harm the next statement
    gateway.do(engine.die)
    assert run("SELECT 4", is_kept=True) == "FINISHED"


@pytest.mark.parametrize(
    ("sql", "is_query", "state"),
    [
        ("SET spark.sql.ansi.enabled=true", False, "FINISHED"),
        ("SELECT 2", False, "FINISHED"),
        ("SELEC 2", True, "ERROR"),
    ],
)
def test_an_engine_session_that_may_have_changed_ends(
    one_after_another, gateway, sql, is_query, state
):
    """What leaves it as it was is a query, by what the engine says, read to its end."""
    one_after_another("SELECT 1", is_kept=True)
    gateway.engine.read = gateway.engine.read if is_query else None
    assert one_after_another(sql, is_kept=False) == state


def test_sessions_that_nobody_uses_again_are_closed(
    one_after_another, gateway, monkeypatch
):
    run, statements = one_after_another, gateway.gateway.statements
    run("SELECT 1", is_kept=True)
    gateway.call(statements._close_unused())
    assert len(gateway.engine.sessions) == 1
    limits = dataclasses.replace(
        gateway.gateway.services.limits, idle_session_seconds=0
    )
    monkeypatch.setattr(gateway.gateway.services, "limits", limits)
    gateway.call(statements._close_unused())
    assert not gateway.engine.sessions


def test_an_engine_session_that_waits_gives_way(
    one_after_another, rest, gateway, monkeypatch
):
    services = gateway.gateway.services
    one_after_another("SELECT 1", is_kept=True)
    monkeypatch.setattr(
        services, "limits", dataclasses.replace(services.limits, engine_sessions=1)
    )
    asked = {"sql": "SELECT 2", "wait_seconds": 20}
    assert rest("bob").post(URL, asked, format="json").json()["state"] == "FINISHED"
    assert "ann" not in services.idle.users()


def test_a_disabled_users_engine_sessions_end(one_after_another, gateway):
    one_after_another("SELECT 1", is_kept=True)
    statements = gateway.gateway.statements
    gateway.call(statements.end_statements_of(["ann"]))
    assert not statements.users()
    assert not gateway.engine.sessions


def test_anothers_statement_does_not_exist(rest):
    reply = rest("ann").post(
        URL, {"sql": "SELECT 1", "wait_seconds": 10}, format="json"
    )
    one = f"{URL}/{reply.json()['id']}"
    bob = rest("bob")
    assert bob.get(one).status_code == 404
    assert bob.get(f"{one}/results").status_code == 404
    assert bob.post(f"{one}:cancel").status_code == 404
    assert rest("ann").get(one).status_code == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"sql": ""}, 400),
        ({"sql": "   "}, 400),
        ({"sql": "SELECT 1", "nope": 1}, 400),
        ({"sql": "SELECT 1", "row_limit": 0}, 400),
        ({"sql": "SELECT 1", "wait_seconds": -1}, 400),
        ({"sql": 5}, 400),
    ],
)
def test_bad_requests_are_refused(rest, body, status):
    assert rest("ann").post(URL, body, format="json").status_code == status


def test_strange_formats_and_tokens(rest):
    ann = rest("ann")
    body = ann.post(URL, {"sql": "SELECT 1", "wait_seconds": 10}, format="json").json()
    results = f"{URL}/{body['id']}/results"
    assert ann.get(results, {"format": "xml"}).status_code == 400
    assert ann.get(results, {"page_token": "-1"}).status_code == 400
    assert ann.get(results, {"page_token": "p99"}).json()["rows"] == []


def test_nobody_gets_in_without_login(rest):
    assert APIClient().post(URL, {"sql": "SELECT 1"}, format="json").status_code == 401


def test_a_gateway_that_is_away_is_503_with_a_hint(rest, settings, tmp_path):
    settings.SLUICE_GATEWAY_INTERNAL = str(tmp_path / "absent.json")
    reply = rest("ann").post(URL, {"sql": "SELECT 1"}, format="json")
    assert reply.status_code == 503
    assert reply.json()["code"] == "gateway_unavailable"


def ask_internal(gateway, headers, path="/state", method="GET"):
    facts = json.loads(gateway.internal_file.read_text())
    connection = http.client.HTTPConnection(facts["host"], facts["port"], timeout=30)
    try:
        connection.request(method, path, headers=headers)
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


@pytest.mark.parametrize("secret", ["", "wrong", SECRET[:-1]])
def test_the_internal_api_wants_the_service_secret(gateway, secret):
    headers = {"Authorization": f"Bearer {secret}"}
    for path in ("/state", "/metrics", "/statements/x"):
        assert ask_internal(gateway, headers, path)[0] == 401


def test_state_and_metrics_are_told(gateway):
    headers = {"Authorization": f"Bearer {SECRET}"}
    status, raw = ask_internal(gateway, headers)
    assert status == 200
    assert json.loads(raw)["engine"]["engine_id"] == "fake"
    status, raw = ask_internal(gateway, headers, "/metrics")
    assert b"sluice_gateway_connections" in raw
    assert gateway.internal_file.stat().st_mode & 0o077 == 0
