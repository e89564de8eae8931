"""Statements of the SQL page: asked of the gateway, remembered in the user's session.

The gateway knows how a statement is; the session knows which ones were asked here.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from catalog.schema.naming import is_system_column
from core.errors import SluiceError
from core.translation import translated
from gateway import client

HISTORY = "statements"
KEPT, LONGEST_KEPT = 30, 4_000
MOVING = frozenset({"INITIALIZED", "PENDING", "RUNNING"})
FIRST_WAIT = 0.4
# of `GET …/results?format=`, as they call themselves
DOWNLOADS = {"csv": "CSV", "parquet": "Parquet", "xlsx": "Excel"}
NOT_ALLOWED = "read-only;"
HINTS = {
    "42P01": _("check the name; what you hold no privilege on answers as absent, too"),
    "42703": _("check the column's name: Ctrl and space complete it"),
    "42601": _("check the statement at the place that the message names"),
    "42501": _("ask an administrator for that privilege"),
    "22012": _("guard the division: try_divide(a, b) gives NULL instead"),
    "57014": _("make it smaller, or raise its time limit"),
}
_PLACE = re.compile(r"\bline (\d+),? pos(?:ition)? (\d+)")

Memory = MutableMapping[str, Any]


@dataclass(frozen=True, slots=True)
class Shown:
    """A statement as the page shows it. seconds: since it was asked, until its end."""

    id: str
    state: str
    seconds: float
    rows_so_far: int = 0
    is_cut: bool = False
    columns: list[dict[str, Any]] = field(default_factory=list)
    waits_for: str = ""
    error: dict[str, Any] | None = None
    progress: dict[str, Any] | None = None

    @property
    def is_moving(self) -> bool:
        return self.state in MOVING

    @property
    def headline(self) -> str:
        """The first line of its error, without the plan that may follow."""
        message = translated((self.error or {}).get("message", ""))
        if NOT_ALLOWED in message:  # it names a class of Spark's
            return gettext(
                "This statement is not allowed here. Allowed are SELECT, SHOW,"
                " DESCRIBE, EXPLAIN, USE and some SETs."
            )
        lines = message.strip().splitlines()
        return lines[0] if lines else gettext("it failed without a message")

    @property
    def hint(self) -> str:
        """What to do about its error."""
        error = self.error or {}
        if NOT_ALLOWED in str(error.get("message", "")):
            return gettext("lake tables are read-only: change the row at its source")
        return str(error.get("hint") or HINTS.get(str(error.get("sql_state")), ""))

    @property
    def place(self) -> tuple[int, int] | None:
        """Line and position (from 1 and 0) that the error names."""
        found = _PLACE.search(str((self.error or {}).get("message", "")))
        return (int(found[1]), int(found[2])) if found else None

    @property
    def has_rows(self) -> bool:
        return self.state == "FINISHED" and bool(self.columns)


@dataclass(frozen=True, slots=True)
class ResultPage:
    """Rows of one page; pages and rows count from 0. hidden: columns of Hudi and Sluice
    that are left out."""

    columns: list[dict[str, Any]]
    rows: list[list[Any]]
    first_row: int
    number: int
    following: int | None
    before: int | None = None
    hidden: int = 0

    @property
    def first(self) -> int:
        return self.first_row + 1

    @property
    def last(self) -> int:
        return self.first_row + len(self.rows)


def run(user: str, sql: str, row_limit: int, memory: Memory) -> Shown:
    """Ask for it and remember it, newest first."""
    answer = client.submit_statement(
        user, sql, wait_seconds=FIRST_WAIT, row_limit=row_limit
    )
    entry = {
        "id": answer["id"],
        "sql": sql[:LONGEST_KEPT],
        "at": timezone.now().isoformat(),
        "seconds": None,
    }
    memory[HISTORY] = [entry, *history_of(memory)][:KEPT]
    return _shown(answer, memory)


def look(user: str, statement_id: str, memory: Memory) -> Shown:
    return _shown(client.statement_of(user, statement_id), memory)


def cancel(user: str, statement_id: str, memory: Memory) -> Shown:
    return _shown(client.cancel_statement(user, statement_id), memory)


def result_page(user: str, statement_id: str, number: int) -> ResultPage:
    answer = client.results_of(user, statement_id, page=number)
    columns, rows, first = answer["columns"], answer["rows"], answer["first_row"]
    before = answer.get("previous_page")
    return ResultPage(columns, rows, first, number, answer["next_page"], before)


def without_meta(result: ResultPage, sql: str) -> ResultPage:
    """Without columns of Hudi and Sluice, but for those that the statement names."""
    kept = [
        at
        for at, column in enumerate(result.columns)
        if not is_system_column(column["name"]) or column["name"] in sql
    ]
    if len(kept) in {0, len(result.columns)}:
        return result
    return replace(
        result,
        columns=[result.columns[at] for at in kept],
        rows=[[row[at] for at in kept] for row in result.rows],
        hidden=len(result.columns) - len(kept),
    )


def sql_of(statement_id: str, memory: Memory) -> str:
    """The text asked for here under that id; "" when it is not remembered."""
    found = (one["sql"] for one in history_of(memory) if one["id"] == statement_id)
    return next(found, "")


def is_open(statement_id: str, memory: Memory) -> bool:
    """Whether it was asked for here, and nobody saw its end yet."""
    entries = (one for one in history_of(memory) if one["id"] == statement_id)
    return any(one["seconds"] is None for one in entries)


def history_of(memory: Memory) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = memory.get(HISTORY, [])
    return found


def gateway_or_error() -> tuple[dict[str, Any] | None, SluiceError | None]:
    """The gateway and its engine as they are now, or why they are unknown."""
    try:
        return client.gateway_state(), None
    except SluiceError as error:
        return None, error


def _shown(answer: dict[str, Any], memory: Memory) -> Shown:
    return Shown(
        id=answer["id"],
        state=answer["state"],
        seconds=_seconds(answer, memory),
        rows_so_far=answer["rows_so_far"],
        is_cut=answer["is_truncated"],
        columns=answer["columns"] or [],
        waits_for=answer.get("waits_for") or "",
        error=answer["error"],
        progress=answer.get("progress"),
    )


def _seconds(answer: dict[str, Any], memory: Memory) -> float:
    """Since the asking; once it has ended, as long as the gateway says it took, which
    the history says, too."""
    entries = history_of(memory)
    entry = next((one for one in entries if one["id"] == answer["id"]), None)
    if entry is None:
        return 0.0
    if entry["seconds"] is not None:
        return float(entry["seconds"])
    asked = datetime.fromisoformat(entry["at"])
    seconds = max(0.0, (timezone.now() - asked).total_seconds())
    if answer["state"] not in MOVING:
        seconds = answer.get("seconds", seconds)
        entry |= {"seconds": round(seconds, 1), "state": answer["state"]}
        memory[HISTORY] = entries
    return seconds
