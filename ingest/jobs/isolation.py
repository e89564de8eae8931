"""What the deaths of drivers mean: when to try again, and which jobs get a driver of
their own, with the leases that they need for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from core.models import Job
from core.retries import Backoff
from ingest.jobs.kinds import DriverKind
from ingest.lake.fence import Scope
from ingest.lake.hudi.identity import shares_lock
from ingest.models import Pipeline
from ingest.models.states import RETIRED

DEATHS_BEFORE_ISOLATION = 2
FIRST_SECONDS = 2.0
LONGEST_SECONDS = 300.0
# Deaths so soon after one another have one reason, and not the job each time: a machine
# without memory, a full disk, a restart in pieces.
GLITCH_SECONDS = 30.0


def wait_after(failures: int) -> float:
    """Seconds to wait after so many failures in a row: 2, 4, 8 … at most 300."""
    return Backoff(FIRST_SECONDS, LONGEST_SECONDS).after(failures)


@dataclass(frozen=True, slots=True)
class Deaths:
    """The drivers that died under a job.

    seen     all of them: the pause before the next attempt grows with each
    counted  those within `GLITCH_SECONDS` of one another once: the job runs alone, and
             in the end fails, by these
    at       seconds since 1970 of the last one that was counted
    """

    seen: int = 0
    counted: int = 0
    at: float = 0.0

    @classmethod
    def of(cls, payload: Mapping[str, Any]) -> Deaths:
        counted = int(payload.get("deaths", 0))
        seen = int(payload.get("deaths_seen", counted))
        return cls(seen, counted, float(payload.get("death_at", 0.0)))

    def another(self, now: float) -> Deaths:
        """A clock that went back is no reason to forget one."""
        is_glitch = self.counted > 0 and 0 <= now - self.at < GLITCH_SECONDS
        if is_glitch:
            return Deaths(self.seen + 1, self.counted, self.at)
        return Deaths(self.seen + 1, self.counted + 1, now)

    def to_payload(self) -> dict[str, Any]:
        if not self.seen:
            return {}
        return {
            "deaths": self.counted,
            "deaths_seen": self.seen,
            "death_at": self.at,
        }


def is_isolated(job: Job, pipeline: Pipeline) -> bool:
    return (
        settings.SLUICE_LAUNCHER == "submit"
        or job.payload.get("deaths", 0) >= DEATHS_BEFORE_ISOLATION
        or bool(job.payload.get("driver"))
        or bool(pipeline.alone_reason)
    )


def scopes_of(kind: DriverKind, pipeline: Pipeline) -> tuple[Scope, ...]:
    """Of a job in a driver of its own. Such drivers share no lock in memory: they take
    the whole table, unless it has a lock that all of them know."""
    lake = pipeline.lake_table
    is_shared = lake is not None and shares_lock(lake.identity)
    return kind.scopes if is_shared else ("write", "service")


def use_dedicated_driver(table_id: int, why: str) -> None:
    """From now on the table's jobs get processes of their own: what ends those ends
    nothing of other tables."""
    synced = Pipeline.objects.filter(lake_table=table_id).exclude(state=RETIRED)
    synced.filter(alone_reason="").update(alone_reason=why)
