"""When to try again after a failure. Pure."""

from __future__ import annotations

FIRST_SECONDS = 2.0
LONGEST_SECONDS = 300.0


def wait_after(failures: int) -> float:
    """Seconds to wait after so many failures in a row: 2, 4, 8 … at most 300."""
    return float(
        min(LONGEST_SECONDS, FIRST_SECONDS * 2 ** min(max(failures, 1) - 1, 10))
    )
