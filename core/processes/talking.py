"""A child that is talked with over its pipes, by threads.

No call blocks on it: a process that is stopped must not stop who started it, so what is
for it is written by a thread of its own. Must not know what messages mean.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from core.control_channel.channel import Channel, PipeStream
from core.control_channel.framing import MalformedMessage
from core.processes.child import ChildSpec, spawn
from core.processes.identity import ProcessIdentity, wait_group_gone

log = logging.getLogger(__name__)

GROUP_SECONDS = 10.0
# What it has started may hold the pipe beyond its end.
PIPE_SECONDS = 5.0

Message = Mapping[str, Any]
T = TypeVar("T")


class TalkingChild:
    """One start of a process that dies with us, which is talked with from `talk` on.
    The thread that makes it must live as long as it.

    hear    called with each message that comes
    ended   called last, with the exit code, when nothing of its group lives any more
    ping_seconds  it gets a message at least so often; None = only those that are sent
    """

    def __init__(
        self,
        spec: ChildSpec,
        first: Message,
        *,
        hear: Callable[[dict[str, Any]], None],
        ended: Callable[[int | None], None],
        ping_seconds: float | None = None,
    ) -> None:
        self._name = spec.name
        self._hear, self._ended = hear, ended
        self._ping_seconds = ping_seconds
        self._outbox: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self.send(first)
        self._process = spawn(
            replace(
                spec,
                inherits="nothing",
                has_pipes=True,
                death_signal=signal.SIGKILL,
            )
        )
        self._channel = Channel(PipeStream(self._process.stdout, self._process.stdin))
        self._reader, self._writer, self._waiter = (
            threading.Thread(target=run, name=spec.name, daemon=True)
            for run in (self._read, self._write, self._wait)
        )

    def talk(self) -> None:
        for thread in (self._reader, self._writer, self._waiter):
            thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def identity(self) -> ProcessIdentity:
        return self._process.identity

    def send(self, message: Message) -> None:
        self._outbox.put(message)

    def ping(self) -> None:
        self.send({"type": "ping", "at": time.time()})

    def ask_to_end(self) -> None:
        self.send({"type": "stop"})

    def kill(self) -> None:
        self._process.kill()

    def end(self, seconds: float) -> None:
        """Kill it unless it ends in time, as it was asked to, and wait for its end."""
        if self._process.wait(seconds) is None:
            log.warning("%s (%s) does not stop, killing it", self._name, self.pid)
            self.kill()
        self._waiter.join()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            for message in self._channel.messages():
                self._hear(message)

    def _write(self) -> None:
        while True:
            try:
                message = self._outbox.get(timeout=self._ping_seconds)
            except queue.Empty:
                self.ping()
                continue
            if message is None:
                return
            try:
                self._channel.send(message)
            except MalformedMessage:
                log.exception("a message to %s was not sent", self._name)
            except OSError:
                return

    def _wait(self) -> None:
        """Of its end the pipe says little: what it has started may hold it."""
        code = self._process.wait()
        wait_group_gone(self.pid, seconds=GROUP_SECONDS)
        self._outbox.put(None)
        for thread in (self._writer, self._reader):
            thread.join(PIPE_SECONDS)
        self._channel.close()
        self._ended(code)


def end_all(children: Sequence[TalkingChild], *, seconds: float) -> None:
    """Ask all to end, and kill those that do not within so long; returns when all are
    gone."""
    for child in children:
        child.ask_to_end()
    until = time.monotonic() + seconds
    for child in children:
        child.end(until - time.monotonic())


def drain(messages: queue.SimpleQueue[T], seconds: float) -> list[T]:
    """All that is there; waits at most so long for the first."""
    found: list[T] = []
    try:
        found.append(messages.get(timeout=seconds))
        while True:
            found.append(messages.get_nowait())
    except queue.Empty:
        return found
