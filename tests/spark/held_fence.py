"""A fence as a pipe: a writer that looks at it waits until the test answers.

A writer looks at its fence whenever Hudi gave it the lock, so a test stops, supersedes
or kills it there, in the midst of a commit, however slow the machine is.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from pathlib import Path

from tests.waiting import wait_for


class HeldFence:
    """In the place of a fence with this token, until it is put back. Meanwhile nobody
    but the one writer may look at it."""

    def __init__(self, path: str, token: int) -> None:
        self._path, self._token = Path(path), token
        self._looker: int | None = None
        self._is_pipe = True
        self._lay_pipe()

    def is_looked_at(self) -> bool:
        """Whether somebody looks, and waits for the answer."""
        if self._looker is None:
            try:
                self._looker = os.open(self._path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno != errno.ENXIO:  # nobody has it open
                    raise
        return self._looker is not None

    def hold_at(self, is_moment: Callable[[], bool], what: str) -> None:
        """Answers until somebody looks at that moment, who waits from then on."""
        while True:
            wait_for(self.is_looked_at, what, pause=0.001)
            if is_moment():
                return
            self.answer()

    def answer(self, token: int | None = None) -> None:
        """Who waits goes on, with this token as that of the fence, or its own."""
        assert self._looker is not None
        if self._is_pipe:  # a new one: he still has this one open
            self._lay_pipe()
        looker, self._looker = self._looker, None
        told = self._token if token is None else token
        with contextlib.suppress(BrokenPipeError):  # killed
            os.write(looker, f"{told}\n".encode())
        os.close(looker)

    def put_back(self) -> None:
        """A file again; who waits goes on waiting."""
        self._is_pipe = False
        aside = self._path.with_name(f"{self._path.name}.file")
        aside.write_text(f"{self._token}\n")
        aside.replace(self._path)

    def _lay_pipe(self) -> None:
        aside = self._path.with_name(f"{self._path.name}.pipe")
        os.mkfifo(aside)
        aside.replace(self._path)
