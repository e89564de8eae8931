"""Which of a session's tables is applied next. Pure.

What waits longest and is most goes first: by age alone, tables of one row an hour hold
up those of a thousand a second; by changes alone, the former never come.
"""

from __future__ import annotations

from dataclasses import dataclass

# A commit costs as much for one row as for a hundred: of a table, so many are enough,
# and they may take that part of a thread's time.
COMMITS_IN_FRESHNESS = 5
LONGEST_BACKOFF = 60.0
# A stream is looked at less often once nothing has come of it for so long.
QUIET_SECONDS = 5.0
LOOKS_IN_FRESHNESS = 10


@dataclass(frozen=True, slots=True)
class Turn:
    """What waits of a table. age, freshness: seconds."""

    changes: int
    age: float
    freshness: float

    @property
    def urgency(self) -> tuple[bool, float]:
        """The highest goes first: whoever is past its freshness, however little it
        is, the most overdue before others."""
        if self.age >= self.freshness:
            return True, self.age / max(self.freshness, 0.001)
        return False, self.changes * self.age


def pause_of(freshness: float, took: float) -> float:
    """Seconds between the beginnings of two commits of a table, the first of which took
    so long: where they are dear, fewer of them bring as much. Within the freshness, if
    one commit fits in there."""
    wanted = max(freshness, 0.0)
    dear = min(took * COMMITS_IN_FRESHNESS, max(wanted, took))
    return max(wanted / COMMITS_IN_FRESHNESS, dear)


def backoff(failures: int) -> float:
    """Seconds until it is tried again. failures: in a row, from 1."""
    return min(LONGEST_BACKOFF, float(2 ** min(failures - 1, 10)))


def look_pause(quiet: float, freshness: float, *, least: float, most: float) -> float:
    """Seconds until a stream is looked at again, of which nothing has come for `quiet`
    seconds: where that is long, what comes next takes a small part of its freshness to
    be seen. freshness: the smallest of its tables; least, most: seconds."""
    if quiet < QUIET_SECONDS:
        return least
    return max(least, min(most, freshness / LOOKS_IN_FRESHNESS))
