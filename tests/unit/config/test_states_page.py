from __future__ import annotations

from pathlib import Path

import pytest

from config.generated_pages import MACHINES, states_page
from core.errors import IllegalTransition
from core.states import Transitions

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_fresh() -> None:
    page = (ROOT / "docs" / "states.md").read_text()
    assert page == states_page(), "run `python manage.py write_docs`"


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_every_state_and_event_is_an_arrow_or_is_refused(machine: Transitions) -> None:
    for state in machine.states:
        for event in machine.events:
            if machine.is_legal(state, event):
                assert machine.after(state, event) in machine.states
            else:
                with pytest.raises(IllegalTransition) as caught:
                    machine.after(state, event)
                assert state in str(caught.value)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_every_state_is_reached_and_only_terminal_ones_end(
    machine: Transitions,
) -> None:
    reached, todo = {machine.initial}, [machine.initial]
    while todo:
        state = todo.pop()
        for event in machine.legal(state):
            after = machine.after(state, event)
            if after not in reached:
                reached.add(after)
                todo.append(after)
    assert reached == set(machine.states)
    dead_ends = {s for s in machine.states if not machine.legal(s)}
    assert dead_ends <= machine.terminal


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_every_event_says_why(machine: Transitions) -> None:
    assert set(machine.events) <= set(machine.why)
