"""The next step for an engine, as a table."""

from __future__ import annotations

import pytest

from gateway.engines.lifecycle import (
    Action,
    Desired,
    EngineFacts,
    EngineState,
    Limits,
    next_action,
)

NOW = 1000.0
LIMITS = Limits(probe_every=10, dead_after=45, start_within=180)
S = EngineState


@pytest.mark.parametrize(
    ("desired", "state", "facts", "action"),
    [
        ("RUNNING", S.STOPPED, {}, Action.START),
        ("STOPPED", S.STOPPED, {}, Action.WAIT),
        ("RUNNING", S.STARTING, {"started_at": 900}, Action.WAIT),
        ("RUNNING", S.STARTING, {"started_at": 800}, Action.KILL),
        ("RUNNING", S.READY, {"last_seen_at": 995}, Action.WAIT),
        ("RUNNING", S.READY, {"last_seen_at": 990}, Action.PROBE),
        ("RUNNING", S.READY, {"last_seen_at": None}, Action.KILL),
        ("RUNNING", S.READY, {"last_seen_at": 950}, Action.KILL),
        ("RUNNING", S.FAILED, {"started_at": 999.5, "failures": 1}, Action.WAIT),
        ("RUNNING", S.FAILED, {"started_at": 999, "failures": 1}, Action.START),
        ("RUNNING", S.FAILED, {"started_at": 970, "failures": 6}, Action.WAIT),
        ("RUNNING", S.FAILED, {"started_at": 940, "failures": 60}, Action.START),
        ("STOPPED", S.FAILED, {}, Action.WAIT),
        ("STOPPED", S.STARTING, {"started_at": 999}, Action.STOP),
        ("STOPPED", S.READY, {"last_seen_at": 999}, Action.STOP),
    ],
)
def test_next_action(desired, state, facts, action):
    observed = EngineFacts(
        "e",
        state,
        started_at=facts.get("started_at", 0.0),
        last_seen_at=facts.get("last_seen_at"),
        consecutive_failures=facts.get("failures", 0),
    )
    got = next_action(Desired(desired), observed, now=NOW, limits=LIMITS)
    assert got is action
