"""The connection test: one step after the other, each with its result in words.

The first failed step ends it and the rest are skipped; what is reported is enough to
act on. Connects only to addresses that the network policy allowed.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from catalog.sources.access import SourceAccess
from catalog.sources.port import discoverer_of
from catalog.sources.steps import Outcome, Status, Step, Steps
from core.sentences import origins_in

STEPS: tuple[tuple[str, Callable[[Steps], Outcome]], ...] = (
    ("resolve", lambda steps: steps.resolve()),
    ("tcp", lambda steps: steps.tcp()),
    ("tls", lambda steps: steps.tls()),
    ("login", lambda steps: steps.login()),
    ("version", lambda steps: steps.version()),
    ("privileges", lambda steps: steps.privileges()),
    ("sample", lambda steps: steps.sample()),
    ("log", lambda steps: steps.log()),
)


@dataclass(frozen=True, slots=True)
class Report:
    """All steps, and facts worth keeping (server version, privileges)."""

    steps: tuple[Step, ...]
    facts: dict[str, Any]

    @property
    def is_ok(self) -> bool:
        return all(step.status != "failed" for step in self.steps)

    @property
    def failed(self) -> Step | None:
        return next((step for step in self.steps if step.status == "failed"), None)

    def as_json(self) -> dict[str, Any]:
        """With what its sentences were made of, for `with_sentences`."""
        report = {
            "ok": self.is_ok,
            "steps": [step.as_json() for step in self.steps],
            "facts": self.facts,
        }
        return report | {"sentences": origins_in(report)}


def run_probe(
    access: SourceAccess, *, on_step: Callable[[Step], None] = lambda _: None
) -> Report:
    """Try all steps; `on_step` hears each outcome as it comes."""
    done: list[Step] = []
    with contextlib.ExitStack() as stack:
        steps = discoverer_of(access.kind).steps(access, stack)
        for name, action in STEPS:
            is_over = any(step.status == "failed" for step in done)
            step = _skipped(name) if is_over else _tried(name, action, steps)
            done.append(step)
            on_step(step)
        return Report(tuple(done), steps.facts)


def _tried(name: str, action: Callable[[Steps], Outcome], steps: Steps) -> Step:
    started = time.monotonic()
    try:
        outcome = action(steps)
    except steps.errors as cause:
        error = steps.explained(cause)
        return Step(
            name,
            "failed",
            error.message,
            hint=error.hint,
            code=error.code,
            raw=str(error.facts.get("raw", "")),
            seconds=round(time.monotonic() - started, 3),
        )
    status: Status = "skipped" if outcome.is_skipped else "ok"
    seconds = round(time.monotonic() - started, 3)
    return Step(name, status, outcome.message, hint=outcome.hint, seconds=seconds)


def _skipped(name: str) -> Step:
    return Step(name, "skipped", "not tried, because an earlier step failed")
