"""docs/states.md as text: every state machine, from the tables in code."""

from __future__ import annotations

from core.jobs import JOB
from core.states import Transitions
from gateway.engines.lifecycle import ENGINE
from gateway.hs2.states import NEGOTIATION
from gateway.operation import OPERATION
from ingest.models.states import MAINTENANCE, PIPELINE

MACHINES: tuple[Transitions, ...] = (
    JOB,
    PIPELINE,
    MAINTENANCE,
    ENGINE,
    OPERATION,
    NEGOTIATION,
)
_HEAD = """\
# State machines

Generated from the tables in code by `python manage.py states --write`; a test keeps it
fresh. Each arrow is one call of `advance()`, which writes state and history together.
"""


def states_page() -> str:
    return "\n".join([_HEAD, *(_machine(machine) for machine in MACHINES)])


def _machine(machine: Transitions) -> str:
    lines = [f"## {machine.name}", "", "```mermaid", "stateDiagram-v2"]
    lines.append(f"  [*] --> {machine.initial}")
    lines += [f"  {a} --> {b}: {event}" for (a, event), b in machine.arrows.items()]
    lines += [f"  {state} --> [*]" for state in sorted(machine.terminal)]
    lines += ["```", "", "| event | from | to | when |", "|---|---|---|---|"]
    lines += [_row(machine, event) for event in machine.events]
    return "\n".join([*lines, ""])


def _row(machine: Transitions, event: str) -> str:
    arrows = [(a, b) for (a, name), b in machine.arrows.items() if name == event]
    before = ", ".join(a for a, _ in arrows)
    after = ", ".join(dict.fromkeys(b for _, b in arrows))
    return f"| {event} | {before} | {after} | {machine.why.get(event, '')} |"
