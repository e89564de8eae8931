"""The follower's end of its pipe: messages of its host, one at a time.

A follower without its host has no lease: it halts when the pipe closes or falls silent.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import threading
import time
from collections.abc import Mapping
from typing import Any, Protocol

from core.errors import TransientError
from ingest.contract.following import FollowerState
from ingest.contract.job import (
    ErrorFact,
    Outcome,
    SecretAnswer,
    error_from,
)
from ingest.contract.members import as_data, value_of

log = logging.getLogger(__name__)

HALTED = 70
_SILENCE_SECONDS = 30.0
_SECRET_SECONDS = 20.0
_LOOK_SECONDS = 0.5

Message = Mapping[str, Any]


class Messages(Protocol):
    """As `core.control_channel.stdio.ControlPipe`."""

    def silent_for(self) -> float: ...

    def send(self, kind: str, **payload: Any) -> None: ...

    def messages(self) -> Any: ...


class HostPipe:
    """Read by a thread; whatever ends it ends the process."""

    def __init__(self, pipe: Messages) -> None:
        self._pipe = pipe
        self._silence = _SILENCE_SECONDS
        self._inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()

    def open(self) -> Message:
        """The host's hello."""
        for run in (self._read, self._watch):
            threading.Thread(target=run, daemon=True).start()
        self._pipe.send("ready", pid=os.getpid())
        hello = self._inbox.get()
        while hello.get("type") != "hello":
            hello = self._inbox.get()
        self._silence = float(hello.get("silence_seconds", self._silence))
        return hello

    def next(self, seconds: float = 0.0) -> Message | None:
        """A message that came; waits so long for one."""
        try:
            return (
                self._inbox.get(timeout=seconds)
                if seconds
                else self._inbox.get_nowait()
            )
        except queue.Empty:
            return None

    def secret(self, ref: str) -> SecretAnswer:
        """Raises what the host says instead; TransientError `secret_unavailable` when
        it says nothing in time."""
        self._pipe.send("secret_request", ref=ref)
        kept: list[Message] = []
        end = time.monotonic() + _SECRET_SECONDS
        try:
            while (left := end - time.monotonic()) > 0:
                message = self.next(left)
                if message is None:
                    break
                if message.get("type") != "secret" or message.get("ref") != ref:
                    kept.append(message)
                    continue
                return _value_of(message)
        finally:
            for message in kept:
                self._inbox.put(message)
        raise TransientError(
            "the password of the source was not handed to its follower",
            code="secret_unavailable",
            hint="enter the datasource's password again; it is tried again",
        )

    def tell(self, state: FollowerState) -> None:
        self._send("state", **as_data(state))

    def fail(self, outcome: Outcome, error: ErrorFact) -> None:
        self._send("failed", outcome=outcome, error=as_data(error))

    def _send(self, kind: str, **payload: Any) -> None:
        try:
            self._pipe.send(kind, **payload)
        except OSError:
            _halt("the control pipe has no reader")

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            for message in self._pipe.messages():
                if message.get("type") != "ping":
                    self._inbox.put(message)
        _halt("the control pipe closed")

    def _watch(self) -> None:
        while True:
            time.sleep(_LOOK_SECONDS)
            if self._pipe.silent_for() > self._silence:
                _halt(f"nothing received for {self._silence:g} s")


def _value_of(message: Message) -> SecretAnswer:
    answer = value_of(SecretAnswer, message)
    if answer.error is not None:
        raise error_from(answer.outcome, answer.error)
    return answer


def _halt(why: str) -> None:
    log.error("follower halts: %s", why)
    os._exit(HALTED)
