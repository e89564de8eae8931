"""CPU seconds of one call, for what must not grow faster than its input.

Measured by the thread's own CPU clock, which other work on the machine does not turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable

TRIES = 5
# Twice the input costs twice as much when linear, four times when quadratic.
MOST_RATIO = 3.0
# What fresh pages of memory, a cache or a collection of garbage may add.
SLACK = 0.015


def cpu_of(work: Callable[[], object]) -> float:
    """The least of some tries, in seconds of this thread's CPU."""
    return min(_once(work) for _ in range(TRIES))


def is_linear(half: float, whole: float) -> bool:
    """Whether `whole`, at twice the size, lies on a line through `half`."""
    return whole <= MOST_RATIO * half + SLACK


def _once(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began
