"""When to try again after a failure, and when not to try at all. Pure: `now` is given.

The one home of these two rules; who needs them names the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses in seconds that double from `first` up to `longest`."""

    first: float
    longest: float

    def after(self, failures: int) -> float:
        """Return the pause after so many failures in a row; `first` after one."""
        doublings = min(max(failures, 1) - 1, 60)
        return min(self.longest, self.first * 2.0**doublings)


@dataclass(slots=True)
class CircuitBreaker:
    """Keeps calls back for `seconds` once `failures` of them failed in a row.

    The failures stay counted until a success: one more keeps calls back again.
    """

    seconds: float
    failures: int = 1
    blocked_until: float = float("-inf")
    failed: int = 0

    def allows(self, now: float) -> bool:
        return now >= self.blocked_until

    def fail(self, now: float) -> None:
        self.failed += 1
        if self.failed >= self.failures:
            self.blocked_until = now + self.seconds

    def succeed(self) -> None:
        self.failed = 0
