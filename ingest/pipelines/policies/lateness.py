"""When a table counts as late, by its own schedule and what its policy allows. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from ingest.pipelines.policies.policy import Effective
from ingest.pipelines.policies.schedule import Manual, Schedule, next_runs


def owing(
    policy: Effective, since: datetime, *, capture: str = "timestamp"
) -> dict[str, datetime | None]:
    """Columns of a table with this policy that owes what is due after `since`."""
    late = late_moment(policy, since, capture=capture)
    return {"due_since": since, "late_at": late}


def late_moment(
    policy: Effective, since: datetime, *, capture: str = "timestamp"
) -> datetime | None:
    if capture == "log":
        # its changes are due at once, whatever schedule other tables have
        return since + timedelta(seconds=policy.late_after)
    return late_at(policy.schedule, since, policy.late_after)


def due_since(
    began: datetime, behind_seconds: float, allowed_seconds: float
) -> datetime:
    """From when on syncs are owed by a table whose last complete one began then.

    That its rows are older, by the safety lag, is meant; what an open transaction kept
    behind that for longer than is allowed is owed still.
    """
    is_owed = behind_seconds > allowed_seconds
    return began - timedelta(seconds=behind_seconds) if is_owed else began


def late_at(
    schedule: Schedule, since: datetime, allowed_seconds: float
) -> datetime | None:
    """When a table that owes syncs since `since` counts as late; None = never.

    By its own schedule: one that runs once a day is not late after an hour.
    """
    if isinstance(schedule, Manual):
        return None
    due = next(iter(next_runs(schedule, since, 1)), None)
    return due + timedelta(seconds=allowed_seconds) if due else None
