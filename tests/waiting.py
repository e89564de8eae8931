"""How a test waits: for an event, within one limit that is the same everywhere.

The limit ends a test that would hang. It is no measure of speed, so it is generous
enough for a machine whose cores are busy with something else.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LIMIT_SECONDS = 600.0
# Who looks all the time takes the processor from what it waits for.
_LONGEST_PAUSE = 1.0


def wait_for(
    check: Callable[[], T | None],
    what: str | Callable[[], object],
    *,
    pause: float = 0.05,
) -> T:
    """The first true value of `check`. AssertionError with `what` was missing (or what
    it then answers) after the limit. pause: seconds between two looks, at least; behind
    one that took long twice as long as it took; 0 = the check waits by itself."""
    end = time.monotonic() + LIMIT_SECONDS
    while True:
        begun = time.monotonic()
        if value := check():
            return value
        if time.monotonic() >= end:
            missing = what() if callable(what) else what
            raise AssertionError(f"waited {LIMIT_SECONDS:.0f} s for {missing}")
        if pause:
            took = time.monotonic() - begun
            time.sleep(max(pause, min(2 * took, _LONGEST_PAUSE)))
