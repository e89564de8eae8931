"""The steps of a source's connection test as pages show them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as _

from catalog.discovery.probe import STEPS, Report
from catalog.models import Datasource
from core.models import Job
from core.sentences import with_sentences

NAMES = {
    "resolve": _("Resolve the host name"),
    "tcp": _("Reach the port"),
    "tls": _("TLS"),
    "login": _("Log in"),
    "version": _("Server version"),
    "privileges": _("Privileges"),
    "sample": _("Read a row"),
    "log": _("Log"),
}


# States of a step that something at the source may mend.
UNMET = frozenset({"failed", "warning"})
_STATEMENT = re.compile(r"\b(?:GRANT|ALTER|CREATE|SET) [^;]+;")


@dataclass(frozen=True, slots=True)
class StepLine:
    """One step of a connection test. state: ok, warning (it passed, with a hint),
    failed, skipped, running, waiting."""

    name: str
    state: str
    message: str = ""
    hint: str = ""
    raw: str = ""
    seconds: float | None = None

    @property
    def statements(self) -> str:
        """What its hint says to run at the source, one a line."""
        return "\n".join(_STATEMENT.findall(self.hint))


def steps_of(job: Job) -> list[StepLine]:
    """A test job's steps: those done, the one at work, those to come."""
    done = with_sentences(job.report or {}).get("steps", [])
    return _lines(done, is_moving=not job.is_finished)


def stored_steps(source: Datasource) -> list[StepLine]:
    """The steps of the last finished test."""
    result = with_sentences(source.test_result or {})
    return _lines(result.get("steps", []), is_moving=False)


def report_steps(report: Report) -> list[StepLine]:
    """The steps of a test that was made just now."""
    return _lines([step.as_json() for step in report.steps], is_moving=False)


def _lines(done: list[dict[str, Any]], *, is_moving: bool) -> list[StepLine]:
    lines = [
        StepLine(
            name=step_name(step["name"]),
            state=_state_of(step),
            message=step["message"],
            hint=step["hint"],
            raw=step["raw"],
            seconds=step["seconds"],
        )
        for step in done
    ]
    if not is_moving:
        return lines
    names = [step_name(name) for name, _ in STEPS]
    for index, name in enumerate(names[len(lines) :]):
        lines.append(StepLine(name, "running" if index == 0 else "waiting"))
    return lines


def _state_of(step: dict[str, Any]) -> str:
    has_remark = step["status"] == "ok" and step["hint"]
    return "warning" if has_remark else str(step["status"])


def step_name(name: str) -> str:
    found = NAMES.get(name)
    return str(found) if found else name.replace("_", " ").capitalize()
