"""A pace holds the average over whole reads, by a clock of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from ingest.driver.capture import gate
from ingest.driver.capture.gate import Pace


@dataclass
class Job:
    """One that waits; what it said, in order."""

    check: Callable[[], None] = lambda: None
    said: list[str] = field(default_factory=list)

    def explain(self, reason: str) -> None:
        self.said.append(reason)


WAITING = Job()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Its only item is the time; sleeping moves it on."""
    now = [100.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(gate.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(gate.time, "sleep", sleep)
    return now


def test_each_read_pays_for_its_rows_before_the_next_begins(clock: list[float]) -> None:
    pace = Pace(1_000)
    pace.wait(WAITING)
    assert clock == [100.0]
    for _ in range(3):
        pace.account(5_000)
        pace.wait(WAITING)
    assert clock[0] == pytest.approx(115.0, abs=0.6)


def test_without_a_rate_nothing_waits(clock: list[float]) -> None:
    pace = Pace()
    pace.account(10**9)
    assert pace.is_free


def test_who_waits_can_be_stopped(clock: list[float]) -> None:
    pace = Pace(1)
    pace.account(3_600)

    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        pace.wait(Job(stop))
