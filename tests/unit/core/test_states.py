from __future__ import annotations

import pytest

from core.errors import IllegalTransition
from core.jobs import ACTIVE, JOB, TERMINAL, WAITING
from core.states import Transitions, fan

DOOR = Transitions(
    name="Door",
    initial="OPEN",
    arrows={("OPEN", "close"): "SHUT", **fan(("SHUT", "STUCK"), "open", "OPEN")},
)


def test_an_arrow_leads_to_its_state() -> None:
    assert DOOR.after("OPEN", "close") == "SHUT"
    assert DOOR.after("STUCK", "open") == "OPEN"


def test_an_illegal_event_names_what_would_be_legal() -> None:
    with pytest.raises(IllegalTransition) as caught:
        DOOR.after("OPEN", "open")
    assert "Door in state OPEN cannot take 'open'" in str(caught.value)
    assert "close" in caught.value.hint


def test_states_and_events_are_listed_once() -> None:
    assert DOOR.states == ("OPEN", "SHUT", "STUCK")
    assert DOOR.events == ("close", "open")


def test_every_job_state_belongs_to_exactly_one_group() -> None:
    groups = (WAITING, ACTIVE, TERMINAL)
    for state in JOB.states:
        assert sum(state in group for group in groups) == 1, state


def test_unknown_is_never_an_end() -> None:
    assert "UNKNOWN" not in TERMINAL
    assert set(JOB.legal("UNKNOWN")) >= {"accepted", "succeed", "fail", "try_again"}
