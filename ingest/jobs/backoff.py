"""When to try again after a failure, and what the deaths of drivers mean. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.retries import Backoff

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
