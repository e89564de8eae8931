"""Sources as pages show them: the steps of a test, what the user may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from catalog.access.enforcement import decision_for
from catalog.access.grants import rows_for
from catalog.access.policy import Principal, Privilege, Securable, granting
from catalog.discovery.probe import STEPS, Report
from catalog.models import Datasource
from catalog.names import LAKE
from core.models import Job

NAMES = {
    "resolve": "Resolve the host name",
    "tcp": "Reach the port",
    "tls": "TLS",
    "login": "Log in",
    "version": "Server version",
    "privileges": "Privileges",
    "sample": "Read a row",
}


@dataclass(frozen=True, slots=True)
class StepLine:
    """One step of a connection test. state: ok, failed, skipped, running, waiting."""

    name: str
    state: str
    message: str = ""
    hint: str = ""
    raw: str = ""
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class May:
    """What the principal may do with a source."""

    operate: bool
    manage: bool


def rights_on(principal: Principal, securable: Securable) -> May:
    def holds(privilege: Privilege) -> bool:
        return decision_for(principal, privilege, securable).allowed

    return May(operate=holds(Privilege.OPERATE), manage=holds(Privilege.MANAGE))


def may_register(principal: Principal) -> bool:
    """Administrators, and who holds `manage` on a name that may be registered."""
    if principal.is_admin:
        return True
    giving = granting(Privilege.MANAGE)
    held = rows_for(principal).filter(privilege__in=giving, database="")
    return held.exclude(datasource=LAKE).exists()


def steps_of(job: Job) -> list[StepLine]:
    """A test job's steps: those done, the one at work, those to come."""
    done = (job.report or {}).get("steps", [])
    return _lines(done, is_moving=not job.is_finished)


def stored_steps(source: Datasource) -> list[StepLine]:
    """The steps of the last finished test."""
    result = source.test_result or {}
    return _lines(result.get("steps", []), is_moving=False)


def report_steps(report: Report) -> list[StepLine]:
    """The steps of a test that was made just now."""
    return _lines(report.as_json()["steps"], is_moving=False)


def _lines(done: list[dict[str, Any]], *, is_moving: bool) -> list[StepLine]:
    lines = [
        StepLine(
            name=step_name(step["name"]),
            state=step["status"],
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


def step_name(name: str) -> str:
    return NAMES.get(name) or name.replace("_", " ").capitalize()
