"""Moving a job row together with the sentence that people see on it."""

from __future__ import annotations

from typing import Any

from core.advance import advance_and_say
from core.models import Job


def move_job(
    job: Job, event: str, *, reason: str = "", actor: str = "", **changes: Any
) -> None:
    """`advance()` that also writes `job.reason`; the event row keeps it too."""
    advance_and_say(job, event, reason=reason, actor=actor, **changes)
