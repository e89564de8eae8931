"""A host claims as soon as something waits, and no more often than that is worth."""

from __future__ import annotations

import pytest

from ingest.driver_host.incarnation import ALIVE_SECONDS, Incarnation
from ingest.driver_host.inflight import AGAIN_SECONDS, Claiming
from ingest.jobs import lifecycle


class Queue:
    """is_free: whether what waits may run."""

    waits, is_free, asked = True, False, 0

    def claim(self) -> list[int]:
        self.asked += 1
        return [1] if self.is_free else []


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    found = Queue()
    monkeypatch.setattr(lifecycle, "is_any_queued", lambda: found.waits)
    monkeypatch.setattr(lifecycle, "claim_queued", found.claim)
    return found


def test_what_cannot_run_is_tried_later_or_when_a_place_came_free(queue: Queue) -> None:
    now = 100.0
    claiming = Claiming(lambda: now)
    for _ in range(5):
        claiming.claim()
    assert queue.asked == 1
    claiming.note_place()
    claiming.claim()
    assert queue.asked == 2
    now += AGAIN_SECONDS
    claiming.claim()
    assert queue.asked == 3


def test_what_can_run_never_waits(queue: Queue) -> None:
    claiming = Claiming(lambda: 100.0)
    queue.waits = False
    claiming.claim()
    assert queue.asked == 0
    queue.waits = queue.is_free = True
    for _ in range(3):
        claiming.claim()
    assert queue.asked == 3


def test_a_driver_without_news_is_written_now_and_then() -> None:
    incarnation = Incarnation()
    assert incarnation.is_worth_writing(100.0), "never written yet"
    incarnation.written = 100.0
    assert not incarnation.is_worth_writing(100.0 + ALIVE_SECONDS / 2)
    assert incarnation.is_worth_writing(100.0 + ALIVE_SECONDS)
    assert ALIVE_SECONDS * 3 < lifecycle.SILENT_SECONDS
    incarnation.facts = {"spark": "3"}
    assert incarnation.is_worth_writing(100.0)
