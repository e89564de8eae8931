"""A job inside the driver: progress, warnings, and the way to stop it.

Stopping is a flag that every step reads, plus whatever the step registered to
interrupt what it waits for. It must not know what the job does.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from core.sentences import Sentence, filled, origins_in
from ingest.contract.job import JobSpec, Progress, SecretAnswer

StopMode = Literal["cancel", "pause"]
# Each attempt begins with these: that one of them begins is no progress.
_BEGINNINGS = frozenset({"waiting", "checking", "planning", "reading"})


class Interrupted(Exception):
    """The job was asked to stop. `mode` says how it ends."""

    def __init__(self, mode: StopMode) -> None:
        super().__init__(mode)
        self.mode = mode


class JobRun:
    """State shared by the job's threads, the heartbeat and the control pipe."""

    def __init__(
        self,
        spec: JobSpec,
        secrets: Callable[[str], SecretAnswer],
        say: Callable[[str, str], None] = lambda level, message: None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.spec = spec
        self.tag = f"sluice-{spec.job_id}"
        # the source shows this name, and its statements are cancelled by it
        self.application = f"sluice:{spec.job_id}"[:63]
        # lake column → values that have no form in the lake and became NULL
        self.lossy: dict[str, int] = {}
        # facts of the report: what the source looked like
        self.source_fingerprint: dict[str, Any] = {}
        self._secrets = secrets
        self._say = say
        self._lock = threading.Lock()
        self._progress = Progress(spec.job_id, spec.attempt, "waiting")
        self._clock = clock
        self._began = clock()
        self._moved: float | None = None
        self._phases = set(_BEGINNINGS)
        self._work = 0
        self._warnings: list[str] = []
        self._stop: StopMode | None = None
        self._stoppers: list[Callable[[], None]] = []

    @property
    def progress(self) -> Progress:
        with self._lock:
            still = None if self._moved is None else self._clock() - self._moved
            return dataclasses.replace(self._progress, still=still)

    @property
    def still_seconds(self) -> float:
        """How long nothing has come of this attempt."""
        with self._lock:
            return self._clock() - (self._began if self._moved is None else self._moved)

    @property
    def warnings(self) -> tuple[str, ...]:
        with self._lock:
            return tuple(self._warnings)

    @property
    def stop_mode(self) -> StopMode | None:
        return self._stop

    def number(self, epoch: int) -> None:
        """The epoch of a load: the lake knows it, or the stream of its table's log."""
        self.spec = dataclasses.replace(self.spec, epoch=epoch)

    def begin_at(self, low: str | None) -> None:
        """The position of a sync, which the lake knows best."""
        if work := self.spec.sync:
            work = dataclasses.replace(work, low=low)
            self.spec = dataclasses.replace(self.spec, sync=work)

    def secret(self, ref: str) -> SecretAnswer:
        """The secret behind a reference and the addresses it may go to, asked for
        over the pipe; never stored. SluiceError when it is refused."""
        return self._secrets(ref)

    def say(self, level: str, message: str) -> None:
        """A line for the job's log, which people read."""
        self._say(level, message)

    def warn(self, message: str, **parameters: object) -> None:
        message = filled(message, parameters)
        with self._lock:
            if message in self._warnings:
                return
            self._warnings.append(message)
        self.say("warning", message)

    def enter(
        self,
        phase: str,
        *,
        total: int | None = None,
        unit: str = "rows",
        done: int = 0,
    ) -> None:
        """A new phase begins; raises Interrupted when the job shall stop.

        done: by earlier attempts
        """
        self.check()
        self.say("info", phase)
        with self._lock:
            self._progress = Progress(
                self.spec.job_id, self.spec.attempt, phase, done, total, unit
            )
            # one that is entered again is a step back
            if phase not in self._phases:
                self._phases.add(phase)
                self._moved = self._clock()

    def note_lossy(self, counts: Mapping[str, int]) -> None:
        """Warns of values that become NULL. counts: lake column → how many."""
        for name, count in counts.items():
            self.lossy[name] = self.lossy.get(name, 0) + count
            self.warn(
                Sentence(
                    "%(count)s values of %(name)s have no form in the lake: NULL there",
                    count=count,
                    name=name,
                )
            )

    def add_done(self, count: int) -> None:
        with self._lock:
            done = self._progress.done + count
            self._progress = dataclasses.replace(self._progress, done=done)
            if count > 0:
                self._moved = self._clock()

    def note_answer(self) -> None:
        """The source has given a part of what is asked of it."""
        with self._lock:
            self._moved = self._clock()

    def note_work(self, work: int) -> None:
        """All that Spark has done under the job's tag so far, in any unit."""
        with self._lock:
            if work > self._work:
                self._work, self._moved = work, self._clock()

    def explain(self, reason: str) -> None:
        with self._lock:
            self._progress = dataclasses.replace(
                self._progress, reason=reason, sentences=origins_in([reason])
            )

    def check(self) -> None:
        if self._stop is not None:
            raise Interrupted(self._stop)

    def request_stop(self, mode: StopMode) -> None:
        """Sets the flag and interrupts what the job waits for. Idempotent; a
        cancel overrides a pause."""
        with self._lock:
            self._stop = "cancel" if self._stop == "cancel" else mode
            stoppers = list(self._stoppers)
        for stop in stoppers:
            stop()

    @contextmanager
    def stopped_by(self, stop: Callable[[], None]) -> Iterator[None]:
        """While inside, a stop request also calls `stop`."""
        with self._lock:
            self._stoppers.append(stop)
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._stoppers.remove(stop)
