"""CPU seconds of a reader, for what must not grow faster than its input.

Measured by the thread's own CPU clock. Other work on the machine adds to that, too: its
caches are emptied, its pages come late. So what counts is the least of some tries, and
what lies on no line is tried again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

# The least, and what a reader gets until it lies on a line.
TRIES, MOST_TRIES = 2, 30
# Twice the input costs twice as much when linear, four times when quadratic.
MOST_RATIO = 3.0
# What fresh pages of memory, a cache or a collection of garbage may add. A reader that
# takes less than this of its longest input holds up nobody, whatever its shape.
SLACK = 0.03


@dataclass(frozen=True, slots=True)
class Cost:
    """Of half the input and of the whole one, in seconds."""

    half: float
    whole: float

    @property
    def is_linear(self) -> bool:
        """Whether `whole` lies on a line through `half`."""
        return self.whole <= MOST_RATIO * self.half + SLACK


def cost_of(
    half: Callable[[], object],
    whole: Callable[[], object],
    *,
    most: float = float("inf"),
) -> Cost:
    """The least of all tries. They end when it is linear and the whole takes `most` at
    most, or when there were too many of them."""
    halves, wholes = [], []
    for number in range(1, MOST_TRIES + 1):
        halves.append(_once(half))
        wholes.append(_once(whole))
        found = Cost(min(halves), min(wholes))
        if number >= TRIES and found.is_linear and found.whole <= most:
            break
    return found


def _once(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began
