"""In Simplified Chinese the SQL page says what the gateway says in Chinese, too."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from catalog.access import audit
from core.context import working_for
from core.errors import InvalidRequest, SluiceError
from core.sentences import Sentence, as_sentence, origins_in
from gateway import client as gateway
from gateway import internal
from gateway.engines.lifecycle import EngineFacts, EngineState
from gateway.engines.port import EngineUnavailable
from gateway.fair import TooManyWait
from gateway.faults import Fault, clean, results_full
from gateway.statement_audit import told
from gateway.statement_service import NoSuchStatement
from tests.integration.frontend.test_simplified_chinese import read_english

__all__ = ["read_english"]


def no_turn() -> SluiceError:
    return TooManyWait(
        Sentence("%(count)s calls wait before this one", count=7),
        hint="try again later",
    )


def engine_away() -> SluiceError:
    late = as_sentence("the engine did not start in time")
    return EngineUnavailable(
        Sentence("the query engine did not start: %(reason)s", reason=late),
        hint="see the engine's log; it is tried again",
    )


@pytest.mark.parametrize(
    "error",
    [
        no_turn(),
        engine_away(),
        NoSuchStatement("there is no such statement", hint="run the statement again"),
        InvalidRequest(
            Sentence("%(count)s of your statements are running already", count=50),
            hint="cancel some, or wait for them",
        ),
    ],
    ids=str,
)
def test_refusals_of_the_gateway(error, world, read_english, monkeypatch):
    answer = internal.problem(error)
    reply = (answer.status, answer.body)
    monkeypatch.setattr(gateway, "_exchange", lambda *_, **__: reply)
    for url, asked in (("/sql/run", {"sql": "SELECT 1"}), ("/system", {})):
        assert read_english(url, **asked) == []


@pytest.mark.parametrize(
    "fault",
    [
        results_full(),
        clean("java.lang.StackOverflowError"),
        clean("IOException: No space left on device"),
        clean(
            "Total size of serialized results of 9 tasks (1030.2 MB) is bigger than"
            " spark.driver.maxResultSize (1024.0 MB)"
        ),
        clean(
            "[STATEMENT_NOT_ALLOWED] DELETE FROM TABLE is not open to SQL users. Lake"
            " tables are read-only; allowed are SELECT and SHOW."
        ),
        clean(""),
        clean(no_turn().as_sentence),
        Fault("the statement ran longer than its time limit"),
    ],
    ids=lambda fault: fault.message[:30],
)
def test_statements_that_failed(fault, world, read_english, monkeypatch):
    answer = {
        "id": "1", "state": "ERROR", "columns": [], "seconds": 1.0, "rows_so_far": 0,
        "is_truncated": False, "error": fault.as_json(), "progress": None,
        "sentences": origins_in([fault.message]),
    }  # fmt: skip
    reply = (200, json.dumps(answer).encode())
    monkeypatch.setattr(gateway, "_exchange", lambda *_, **__: reply)
    assert read_english("/sql/run", sql="SELECT 1") == []


def test_the_history_of_statements(world, read_english):
    for fault in (results_full(), clean("java.lang.StackOverflowError")):
        facts = {"statement": "SELECT 1", "state": "ERROR", "seconds": 1.0}
        with working_for(actor="root", door="gateway"):
            audit.record("statement.run", on="1", **facts, **told(fault))
        assert read_english("/sql/history") == [], fault


def test_an_engine_that_failed(world, read_english, monkeypatch):
    reason = engine_away().message
    facts = EngineFacts(engine_id="1", state=EngineState.FAILED, reason=reason)
    state = {
        "engine": {**asdict(facts), "running_statements": 0},
        "database_read_age_ms": 1,
        "audit_lost": 0,
        "sentences": origins_in([reason]),
    }
    reply = (200, json.dumps(state).encode())
    monkeypatch.setattr(gateway, "_exchange", lambda *_, **__: reply)
    assert read_english("/system") == []


@pytest.mark.parametrize(
    "waits_for",
    [
        "the query engine is starting",
        Sentence("waiting, %(count)s statements wait already", count=7),
    ],
)
def test_statements_that_wait(waits_for, world, read_english, monkeypatch):
    answer = {
        "id": "1", "state": "PENDING", "columns": [], "seconds": 1.0, "rows_so_far": 0,
        "is_truncated": False, "error": None, "progress": None, "waits_for": waits_for,
        "sentences": origins_in([waits_for]),
    }  # fmt: skip
    reply = (202, json.dumps(answer).encode())
    monkeypatch.setattr(gateway, "_exchange", lambda *_, **__: reply)
    assert read_english("/sql/run", sql="SELECT 1") == []
