"""Waking at the moment when some process opens a file: Linux' own notification."""

from __future__ import annotations

import ctypes
import os
import select
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_OPENED = 0x20
_NOTHING_YET = 0o4000


class Opened:
    """Counts openings since the last look; an unread one wakes `wait`."""

    def __init__(self, number: int) -> None:
        self._number = number

    def wait(self, seconds: float) -> bool:
        """Whether somebody opened it, by now or within the time."""
        ready, _, _ = select.select([self._number], [], [], seconds)
        if ready:
            os.read(self._number, 65_536)
        return bool(ready)


@contextmanager
def watching(path: Path) -> Iterator[Opened]:
    number = _LIBC.inotify_init1(_NOTHING_YET)
    assert number >= 0, os.strerror(ctypes.get_errno())
    try:
        added = _LIBC.inotify_add_watch(number, str(path).encode(), _OPENED)
        assert added >= 0, os.strerror(ctypes.get_errno())
        yield Opened(number)
    finally:
        os.close(number)
