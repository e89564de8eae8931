"""Waiting for a statement over REST holds a thread of the web process: few do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from catalog.api.views import body_of
from gateway.api import statements

GIVEN = {"sql": "SELECT 1", "row_limit": None, "database": "", "wait_seconds": 30.0}


def test_statements_of_those_who_wait_too_often_are_answered_at_once(monkeypatch):
    waits: dict[str, list[float]] = {"ann": [], "bob": []}

    def submit(user, sql, *, wait_seconds, **given):
        waits[user].append(wait_seconds)
        if len(waits["ann"]) < 5:  # each asks while those before still wait
            statements.submitted("ann", GIVEN)
        elif not waits["bob"]:
            statements.submitted("bob", GIVEN)
        return {}

    monkeypatch.setattr(statements.client, "submit_statement", submit)
    statements.submitted("ann", GIVEN)
    assert waits == {"ann": [30, 30, 30, 0, 0], "bob": [30]}
    waits["ann"].clear()
    waits["ann"] += [0, 0, 0, 0]
    statements.submitted("ann", GIVEN)
    assert waits["ann"][-1] == 30


def test_calls_that_repetitions_would_wait_for_are_answered_at_once(monkeypatch):
    waits: list[float] = []

    def submit(*_, wait_seconds, **given):
        waits.append(wait_seconds)
        return {}

    monkeypatch.setattr(statements.client, "submit_statement", submit)
    statements.submitted("ann", GIVEN, is_repeatable=True)
    statements.submitted("ann", GIVEN, is_repeatable=False)
    assert waits == [0, 30]


def test_a_longer_wait_than_there_is_ends_sooner_and_is_not_refused(monkeypatch):
    waits: list[float] = []
    request: Any = SimpleNamespace(headers={}, data=GIVEN | {"wait_seconds": 600})

    def submit(*_, wait_seconds, **given):
        waits.append(wait_seconds)
        return {}

    monkeypatch.setattr(statements.client, "submit_statement", submit)
    statements.submitted("ann", body_of(statements.StatementNew, request))
    assert waits == [30]


def test_who_does_not_wait_takes_no_place(monkeypatch):
    def submit(*_, **given):
        assert statements.WAITS.take("ann") is not None
        return {}

    monkeypatch.setattr(statements, "WAITS", statements.Places(most=1, most_each=1))
    monkeypatch.setattr(statements.client, "submit_statement", submit)
    statements.submitted("ann", GIVEN | {"wait_seconds": 0.0})
