"""One gate per source: how many reads at once, and how many rows per second.

All jobs of a driver that read the same source go through its gate, chunk by
chunk, so several tables interleave and none starves. It must not know SQL.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from core.sentences import Sentence
from ingest.contract.table import SourceSpec

_POLL_SECONDS = 0.2


class Waiting(Protocol):
    """A job that waits: `check` may raise to give up, `explain` says for what."""

    def check(self) -> None: ...

    def explain(self, reason: str) -> None: ...


class Pace:
    """Rows per second on average, over whole chunks; rate 0 = no limit."""

    def __init__(self, rate: int = 0) -> None:
        self.rate = rate
        self._free_at = 0.0
        self._lock = threading.Lock()

    @property
    def is_free(self) -> bool:
        return time.monotonic() >= self._free_at

    def account(self, rows: int) -> None:
        """After a read: the next one waits until the average is below the rate."""
        with self._lock:
            if self.rate:
                start = max(time.monotonic(), self._free_at)
                self._free_at = start + rows / self.rate

    def wait(self, job: Waiting) -> None:
        """Until the next read may begin."""
        is_explained = False
        while not self.is_free:
            is_explained = True
            job.explain(self.reason)
            time.sleep(_POLL_SECONDS)
            job.check()
        if is_explained:
            job.explain("")

    @property
    def reason(self) -> str:
        return Sentence(
            "waits for its rate of %(rate)s rows per second", rate=f"{self.rate:,}"
        )


class SourceGate:
    """First come, first served; limits follow the newest spec."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._queue: deque[object] = deque()
        self._reading: Counter[int] = Counter()
        self._limit = 1
        self._pace = Pace()

    def configure(self, spec: SourceSpec) -> None:
        with self._condition:
            self._limit = max(1, spec.max_parallel_reads)
            self._pace.rate = max(0, spec.max_rows_per_second)
            self._condition.notify_all()

    @contextmanager
    def reading(self, job: Waiting) -> Iterator[None]:
        """Waits for a place."""
        ticket = object()
        with self._condition:
            self._queue.append(ticket)
            try:
                self._wait(ticket, job)
            except BaseException:
                self._queue.remove(ticket)
                self._condition.notify_all()
                raise
            self._queue.popleft()
            self._reading[id(job)] += 1
        try:
            yield
        finally:
            with self._condition:
                self._reading -= Counter([id(job)])  # keeps those above 0
                self._condition.notify_all()

    def _wait(self, ticket: object, job: Waiting) -> None:
        is_explained = False
        while not self._may_enter(ticket):
            # while another of its readers is at work, the job does not wait
            if not self._reading[id(job)]:
                job.explain(self._reason())
                is_explained = True
            self._condition.wait(_POLL_SECONDS)
            job.check()
        if is_explained:
            job.explain("")

    def _reason(self) -> str:
        if not self._pace.is_free:
            return self._pace.reason
        return Sentence(
            "waits for one of the source's %(limit)s readers", limit=self._limit
        )

    def account(self, rows: int) -> None:
        """After a read: the next one waits until the average is below the rate."""
        self._pace.account(rows)

    def _may_enter(self, ticket: object) -> bool:
        return (
            self._queue[0] is ticket
            and self._reading.total() < self._limit
            and self._pace.is_free
        )


class SourceGates:
    """The gates of a driver by datasource."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gates: dict[int, SourceGate] = {}

    def gate_for(self, spec: SourceSpec) -> SourceGate:
        with self._lock:
            gate = self._gates.setdefault(spec.datasource_id, SourceGate())
        gate.configure(spec)
        return gate
