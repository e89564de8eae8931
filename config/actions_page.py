"""The table of actions in docs/maintenance.md, from the list that REST walks."""

from __future__ import annotations

import re
from pathlib import Path

from ingest.actions import registry
from ingest.maintenance.table_action import TableAction

BEGIN, END = "<!-- actions -->", "<!-- end of actions -->"
_BETWEEN = re.compile(f"(?<={BEGIN}\n).*(?={END})", re.DOTALL)
_HEAD = (
    "| action | request | what it does | blocks | undo | privilege |",
    "|---|---|---|---|---|---|",
)


def actions_table() -> str:
    rows = [_row(action) for action in registry.verbs()]
    return "\n".join([*_HEAD, *rows, ""])


def with_actions(page: str) -> str:
    """The page with its table of actions brought up to date."""
    return _BETWEEN.sub(lambda _: actions_table(), page)


def maintenance_page(root: Path) -> Path:
    return root / "docs" / "maintenance.md"


def _row(action: TableAction) -> str:
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
