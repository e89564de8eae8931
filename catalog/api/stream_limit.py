"""How many long responses a web process keeps open, in all and by user.

Each occupies a thread of the web server for as long as it lasts, so that their number
must be far below the number of threads.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass

from core.counts import discount


class Places:
    """Open responses of one sort in this process. The last place is for a user who has
    none: clients hold theirs for as long as they like."""

    def __init__(self, *, most: int, most_each: int) -> None:
        self._most = most
        self._most_each = most_each
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    def take(self, user: str) -> Place | None:
        with self._lock:
            mine, left = self._taken[user], self._most - self._taken.total()
            if left < (2 if mine else 1) or mine >= self._most_each:
                return None
            self._taken[user] += 1
        return Place(self, user)

    def leave(self, user: str) -> None:
        with self._lock:
            discount(self._taken, user)

    @property
    def taken(self) -> int:
        with self._lock:
            return self._taken.total()


@dataclass(slots=True)
class Place:
    """One response's right to stay open; given back once, by hand or by the end of a
    `with`."""

    places: Places
    user: str
    is_given_back: bool = False

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()

    def give_back(self) -> None:
        if not self.is_given_back:
            self.is_given_back = True
            self.places.leave(self.user)
