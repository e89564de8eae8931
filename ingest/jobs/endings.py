"""The domain events of how a table's job ended, in one place for all that end jobs.

Each end is a `job.moved`, too, also of a job without a table and of a cancelled one;
these say what it meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core import outbox
from core.errors import SluiceError
from core.models import Job
from core.outbox import NewEvent


def report_success(
    job: Job, facts: Mapping[str, Any], *, has_caught_up: bool = False
) -> None:
    """One statement, whether it committed or not."""
    data: dict[str, Any] = _about(job) | {"caught_up": has_caught_up}
    if "verdict" in facts:
        data["verdict"] = facts["verdict"]
    events = [NewEvent("job.succeeded", "job", str(job.pk), data)]
    if instant := facts.get("instant"):
        commit = {"job": str(job.pk), "kind": job.kind, "instant": str(instant)}
        events.append(
            NewEvent("commit.made", "table", str(job.payload["table"]), commit)
        )
    outbox.append(*events)


def report_failure(job: Job, error: SluiceError, *, failures: int = 0) -> None:
    """failures  how many syncs failed in a row, when this one is tried again later"""
    data = _about(job) | {
        "attempts": job.attempts,
        "failures": failures,
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
    }
    outbox.append(NewEvent("job.failed", "job", str(job.pk), data))


def _about(job: Job) -> dict[str, Any]:
    return {"kind": job.kind, "table": int(job.payload["table"])}
