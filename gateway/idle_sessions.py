"""Engine sessions that a user's statements over REST have left, for their next ones.

Opening one takes the engine longer than a short statement. Only what is as it was
opened comes here, see `Run.left_nothing`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.engines.port import EngineSession


@dataclass(frozen=True, slots=True)
class IdleSession:
    """`database` is the current one; all else is as it was opened."""

    user: str
    session: EngineSession
    database: str
    since: float = field(default_factory=time.monotonic)


class IdleSessions:
    """At most `most`, and `most_each` of one user; the oldest goes for a new one."""

    def __init__(self, *, most: int, most_each: int) -> None:
        self._most = most
        self._most_each = most_each
        self._kept: list[IdleSession] = []

    def __len__(self) -> int:
        return len(self._kept)

    def users(self) -> set[str]:
        return {one.user for one in self._kept}

    def keep(self, left: IdleSession) -> list[EngineSession]:
        """Keep it for the next statement; return which are to be closed for it."""
        own = [one for one in self._kept if one.user == left.user]
        self._kept.append(left)
        if len(own) >= self._most_each:
            return self.remove(lambda one: one is own[0])
        return self.remove_oldest() if len(self) > self._most else []

    def take(self, user: str) -> IdleSession | None:
        """Return the user's newest, which is kept no more."""
        self.remove(lambda one: one.session.is_closed)
        own = [one for one in self._kept if one.user == user]
        if own:
            self._kept.remove(own[-1])
        return own[-1] if own else None

    def remove_oldest(self) -> list[EngineSession]:
        """Return the oldest, if there is any, to be closed."""
        oldest = self._kept[:1]
        return self.remove(lambda one: one in oldest)

    def remove(self, goes: Callable[[IdleSession], bool]) -> list[EngineSession]:
        """Return those that go, to be closed."""
        gone = [one.session for one in self._kept if goes(one)]
        self._kept = [one for one in self._kept if one.session not in gone]
        return gone
