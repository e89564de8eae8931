"""What a host has heard and not written yet: kept until it is, and never in the way.

It must not know what the items are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from core.database_errors import is_away

log = logging.getLogger(__name__)

TRIES = 5

T = TypeVar("T")


class Backlog(Generic[T]):
    """Items in the order they came, each with how often writing it failed."""

    def __init__(self) -> None:
        self._items: list[tuple[T, int]] = []

    def __bool__(self) -> bool:
        return bool(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter([item for item, _ in self._items])

    def add(self, item: T) -> None:
        self._items.append((item, 0))

    def keep(self, is_wanted: Callable[[T], bool]) -> None:
        """Forget all others."""
        self._items = [pair for pair in self._items if is_wanted(pair[0])]

    def write_all(
        self,
        write: Callable[[T], object],
        *,
        give_up: Callable[[T, Exception], None] = lambda item, error: None,
    ) -> None:
        """Write every item. One that is refused stays for the next time, and is given
        up after `TRIES`; the items behind it are written all the same.

        Errors of a database that is away go up: then nothing is lost or counted. One of
        this statement alone (a lock, a time-out, a limit) is a refusal like others.
        """
        for pair in list(self._items):
            item, failures = pair
            try:
                write(item)
            except Exception as error:
                if is_away(error):
                    raise
                # somebody else moved the row, or a defect of ours: either way the
                # host and the other jobs must go on
                log.exception("writing %s failed", type(item).__name__)
                if failures + 1 < TRIES:
                    self._items[self._items.index(pair)] = item, failures + 1
                    continue
                give_up(item, error)
            self._items.remove(pair)
