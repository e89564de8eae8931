"""How many long responses a web process keeps open, in all and by user.

Each occupies a thread of the web server for as long as it lasts, so that their number
must be far below the number of threads.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass


class Places:
    """Open responses of one sort in this process. The last place is for a user who has
    none: clients hold theirs for as long as they like."""

    def __init__(self, *, most: int, most_each: int) -> None:
        self._most = most
        self._most_each = most_each
        self._lock = threading.Lock()
        self._held: list[Place] = []  # the oldest first

    def take(self, user: str, *, end: Callable[[], None] | None = None) -> Place | None:
        """end: what ends the response, from any thread, so that its place is free for a
        user who has none, when its own user has two and nobody less."""
        with self._lock:
            mine = sum(place.user == user for place in self._held)
            left = self._most - len(self._held)
            if mine >= self._most_each or (mine and left < 2):
                return None
            ended = None if left else self._youngest_of_who_has_most()
            if ended is not None:
                self._held.remove(ended)
            elif not left:
                return None
            made = Place(self, user, end)
            self._held.append(made)
        if ended is not None and ended.end is not None:
            ended.end()
        return made

    def leave(self, place: Place) -> None:
        with self._lock:
            if place in self._held:
                self._held.remove(place)

    @property
    def taken(self) -> int:
        with self._lock:
            return len(self._held)

    def _youngest_of_who_has_most(self) -> Place | None:
        """Nobody's only place is taken."""
        ending = [place for place in self._held if place.end is not None]
        counts = Counter(place.user for place in ending)
        user, most = max(counts.items(), key=lambda each: each[1], default=("", 0))
        return [p for p in ending if p.user == user][-1] if most > 1 else None


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """One response's right to stay open; given back once, by hand or by the end of a
    `with`."""

    places: Places
    user: str
    end: Callable[[], None] | None = None

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()

    def give_back(self) -> None:
        self.places.leave(self)
