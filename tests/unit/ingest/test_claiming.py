"""A host claims as soon as something waits, and no more often than that is worth."""

from __future__ import annotations

import pytest

from ingest.driver_host import attempts
from ingest.driver_host.attempts import AGAIN_SECONDS, ClaimLoop
from ingest.driver_host.host import ALIVE_SECONDS, Incarnation
from ingest.jobs import queue as rows


class Queue:
    """is_free: whether what waits may run."""

    waits, is_free, asked = True, False, 0

    def claim(self) -> list[int]:
        self.asked += 1
        return [1] if self.is_free else []


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    found = Queue()
    monkeypatch.setattr(rows, "is_any_queued", lambda: found.waits)
    monkeypatch.setattr(attempts, "claim_queued", found.claim)
    return found


def test_what_cannot_run_is_tried_later_or_when_a_place_came_free(queue: Queue) -> None:
    now = 100.0
    claiming = ClaimLoop(lambda: now)
    for _ in range(5):
        claiming.claim()
    assert queue.asked == 1
    claiming.note_change()
    claiming.claim()
    assert queue.asked == 2
    now += AGAIN_SECONDS
    claiming.claim()
    assert queue.asked == 3


def test_what_can_run_never_waits(queue: Queue) -> None:
    claiming = ClaimLoop(lambda: 100.0)
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
    assert ALIVE_SECONDS * 3 < rows.SILENT_SECONDS
    incarnation.facts = {"spark": "3"}
    assert incarnation.is_worth_writing(100.0)
