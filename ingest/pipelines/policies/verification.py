"""When a table is verified automatically, and how fast. Pure: no rows, no clock.

A verification reads the whole source table, so it has a budget and prefers the quiet
hours of the table's policy, like other maintenance.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from ingest.pipelines.policies.maintenance import MaintenanceWindow, opens_at

RETRY_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class VerificationPolicy:
    """Settings, with their defaults.

    verify_every            seconds; 0 = only on request
    verify_rows_per_second  at most so many rows of the source, 0 = as fast as it goes
    """

    verify_every: float = 0.0
    verify_rows_per_second: int = 50_000

    @property
    def is_on(self) -> bool:
        return self.verify_every > 0


def due_at(
    policy: VerificationPolicy,
    *,
    verified_at: datetime | None,
    quiet: MaintenanceWindow | None,
    now: datetime,
) -> datetime | None:
    """The moment of the next verification: `now` when it is due, None = never.

    A table that was never verified is due at once; outside its quiet hours it waits
    for their next beginning.
    """
    if not policy.is_on:
        return None
    every = timedelta(seconds=policy.verify_every)
    due = max(now, verified_at + every) if verified_at else now
    if quiet is None:
        return due
    return opens_at(quiet, due) or due


def retry_at(policy: VerificationPolicy, *, now: datetime) -> datetime | None:
    """When one that could not decide is tried again; None = never."""
    if not policy.is_on:
        return None
    return now + timedelta(seconds=min(RETRY_SECONDS, policy.verify_every))
