"""One follower as a child process: started, written to, read from, and gone.

No call blocks on it: a process that is stopped must not stop its host, so what is for
it is written by a thread of its own. Knows nothing of rows.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.control_channel.channel import Channel, PipeStream
from core.control_channel.framing import MalformedMessage
from core.processes.child import Child, ChildSpec, spawn
from core.processes.identity import write_identity
from ingest.contract.following import (
    FollowSpec,
    FollowTable,
)
from ingest.contract.job import SecretAnswer
from ingest.contract.members import as_data

log = logging.getLogger(__name__)

# Of the silence that ends it: one that is late by two of them goes on.
PINGS_IN_SILENCE = 4
# Its last segment is durable or is not: there is nothing to wait for beyond a write.
STOP_SECONDS = 8.0


@dataclass(frozen=True, slots=True)
class FollowerCommand:
    """How to start a follower. `environment` is complete: nothing is inherited.

    run       where the process is noted, one file each
    silence_seconds  it ends when it hears nothing for so long
    """

    program: Sequence[str]
    environment: Mapping[str, str]
    logs: Path
    run: Path
    silence_seconds: float = 15.0


@dataclass(frozen=True, slots=True)
class News:
    """What came from a child; `ended` once it is gone, and nothing of it comes after.

    source  id of the datasource; 0 = none, the host was woken
    start   which start of the child it is of
    """

    kind: str
    source: int = 0
    start: int = 0
    data: Mapping[str, Any] = field(default_factory=dict)


class FollowerChild:
    """One start. The thread that makes it must live as long as it."""

    def __init__(
        self,
        command: FollowerCommand,
        spec: FollowSpec,
        *,
        start: int,
        news: queue.SimpleQueue[News],
    ) -> None:
        self.spec = spec
        self.start = start
        self.tables = spec.tables
        self._source = spec.source.datasource_id
        self._news = news
        self._ping_seconds = command.silence_seconds / PINGS_IN_SILENCE
        self._outbox: queue.SimpleQueue[Mapping[str, Any] | None] = queue.SimpleQueue()
        self._process = _spawn(command, self._source)
        self._note = command.run / f"follower-{self._source}.pid.json"
        write_identity(self._note, self.pid, "follower")
        self._channel = Channel(PipeStream(self._process.stdout, self._process.stdin))
        hello = {"type": "hello", "silence_seconds": command.silence_seconds}
        self._send({**hello, **told("spec", spec)})
        name = f"follower-{self._source}"
        self._threads = [
            threading.Thread(target=run, name=name, daemon=True)
            for run in (self._read, self._write, self._wait)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send_tables(self, tables: tuple[FollowTable, ...]) -> None:
        self.tables = tables
        self._send({"type": "tables", **told("tables", tables)})

    def give_secret(self, answer: SecretAnswer) -> None:
        self._send({"type": "secret", **as_data(answer)})

    def ask_to_stop(self) -> None:
        self._send({"type": "stop"})

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        """End it, and wait until it is gone."""
        self.ask_to_stop()
        if self._process.wait(STOP_SECONDS) is None:
            log.warning("follower %s does not stop, killing it", self.pid)
            self.kill()
        for thread in self._threads:
            thread.join()

    def _send(self, message: Mapping[str, Any]) -> None:
        self._outbox.put(message)

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            for data in self._channel.messages():
                kind = str(data.pop("type", ""))
                self._news.put(News(kind, self._source, self.start, data))

    def _write(self) -> None:
        while True:
            try:
                message = self._outbox.get(timeout=self._ping_seconds)
            except queue.Empty:
                message = {"type": "ping", "at": time.time()}
            if message is None:
                return
            try:
                self._channel.send(message)
            except MalformedMessage:
                log.exception("a message to follower %s was not sent", self.pid)
            except OSError:
                return

    def _wait(self) -> None:
        code = self._process.wait()
        self._outbox.put(None)
        reader, writer, _ = self._threads
        writer.join()
        reader.join(timeout=5)  # what it has started may hold the pipe
        self._channel.close()
        self._note.unlink(missing_ok=True)
        self._news.put(News("ended", self._source, self.start, {"code": code}))


def told(name: str, value: Any) -> dict[str, Any]:
    """A member of a message, with what its sentences were made of."""
    origins: dict[str, Any] = {}
    return {name: as_data(value, origins), "sentences": origins}


def drain(news: queue.SimpleQueue[News], seconds: float) -> list[News]:
    """All that is there; waits at most so long for the first."""
    found: list[News] = []
    try:
        found.append(news.get(timeout=seconds))
        while True:
            found.append(news.get_nowait())
    except queue.Empty:
        return found


def _spawn(command: FollowerCommand, source: int) -> Child:
    name = f"follower-{source}"
    return spawn(
        ChildSpec(
            name=name,
            command=command.program,
            environment=command.environment,
            inherits="nothing",
            log=command.logs / f"{name}.log",
            has_pipes=True,
            death_signal=signal.SIGKILL,
        )
    )
