"""Pages of docs/ that are made from tables in code: states, and actions of a table."""

from __future__ import annotations

import re
from pathlib import Path

from core.jobs import JOB
from core.states import Transitions
from gateway.engines.lifecycle import ENGINE
from gateway.hs2.connection import NEGOTIATION
from gateway.operation import OPERATION
from ingest.actions import registry
from ingest.maintenance.table_action import TableAction
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

Generated from the tables in code by `python manage.py write_docs`; a test keeps it
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


BEGIN, END = "<!-- actions -->", "<!-- end of actions -->"
_BETWEEN = re.compile(f"(?<={BEGIN}\n).*(?={END})", re.DOTALL)
_ACTIONS_HEAD = (
    "| action | request | what it does | blocks | undo | privilege |",
    "|---|---|---|---|---|---|",
)


def actions_table() -> str:
    rows = [_action_row(action) for action in registry.verbs()]
    return "\n".join([*_ACTIONS_HEAD, *rows, ""])


def with_actions(page: str) -> str:
    """The page with its table of actions brought up to date."""
    return _BETWEEN.sub(lambda _: actions_table(), page)


def write_pages(docs: Path) -> None:
    (docs / "states.md").write_text(states_page())
    page = docs / "maintenance.md"
    page.write_text(with_actions(page.read_text()))


def _action_row(action: TableAction) -> str:
    verb = f"`{action.route}`"
    members = ", ".join(f"`{each.name}`" for each in action.request.fields)
    cells = (
        f"{action.title}: {verb}",
        members,
        action.does,
        action.blocks,
        action.undo,
        str(action.privilege),
    )
    return "| " + " | ".join(cells) + " |"
