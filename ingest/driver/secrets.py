"""Passwords that the host hands to this driver, each to the jobs that wait for it.

Nothing is kept: a value is forgotten once its askers have it. It must not know pipes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from core.errors import TransientError
from ingest.contract.job import SecretAnswer, error_from

SECONDS = 20.0


class Secrets:
    """`request` asks the host for the value of a reference; its answer is heard later,
    by another thread."""

    def __init__(
        self, request: Callable[[str], None], *, seconds: float = SECONDS
    ) -> None:
        self._request = request
        self._seconds = seconds
        self._wanted: dict[str, _Wanted] = {}
        self._lock = threading.Lock()

    def ask(self, ref: str) -> SecretAnswer:
        """Raises what the host says instead of a value; TransientError
        `secret_unavailable` when it says nothing in time."""
        with self._lock:
            wanted = self._wanted.setdefault(ref, _Wanted())
            wanted.askers += 1
        self._request(ref)
        answer = wanted.wait(self._seconds)
        with self._lock:
            wanted.askers -= 1
            if not wanted.askers and self._wanted.get(ref) is wanted:
                del self._wanted[ref]
        if answer is None:
            raise TransientError(
                "the password of the source was not handed to the driver",
                code="secret_unavailable",
                hint="enter the datasource's password again, then retry",
            )
        if answer.error is not None:
            raise error_from(answer.outcome, answer.error)
        return answer

    def receive(self, answer: SecretAnswer) -> None:
        """One that nobody waits for any more is dropped: the next job would get it,
        after a change of the password, too."""
        with self._lock:
            wanted = self._wanted.pop(answer.ref, None)
        if wanted is not None:
            wanted.give(answer)


class _Wanted:
    """A value that somebody waits for."""

    def __init__(self) -> None:
        self.askers = 0
        self._given = threading.Event()
        self._answer: SecretAnswer | None = None

    def give(self, answer: SecretAnswer) -> None:
        self._answer = answer
        self._given.set()

    def wait(self, seconds: float) -> SecretAnswer | None:
        self._given.wait(seconds)
        return self._answer
