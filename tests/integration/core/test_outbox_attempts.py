"""An event whose handler is cut off or takes too long: counted, and passed by."""

from __future__ import annotations

from collections import Counter

import pytest
from django.db import connection

from core import outbox_reader
from core.models import DomainEvent, OutboxAttempt, OutboxReader
from core.outbox_reader import TRIES, Event, given_up, prune_events, read
from core.retries import Backoff
from tests.integration.core.test_outbox import TOPIC, Heard, Killed, say

pytestmark = pytest.mark.django_db(transaction=True)


class Slow(Heard):
    """Its events named "bad" run into the database's time-out, or die, so often."""

    def __init__(self, times: int, *, dies: bool = False) -> None:
        super().__init__()
        self.times, self.dies = times, dies
        self.tried: Counter[str] = Counter()

    def __call__(self, event: Event) -> None:
        self.tried[event.subject_id] += 1
        super().__call__(event)
        if event.subject_id != "bad" or self.tried["bad"] > self.times:
            return
        if self.dies:
            raise Killed
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 1; SELECT pg_sleep(5)")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_reader, "PAUSES", Backoff(0.0, 0.0))


def test_a_handler_that_always_times_out_is_given_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ear = Slow(99)
    say("a", "bad", "b")
    assert ear.read() == ["a", "b"]
    assert OutboxAttempt.objects.get().attempts == 1
    assert given_up() == {"ear": 0}
    for _ in range(3):
        assert ear.read() == ["a", "b"]
    assert OutboxAttempt.objects.get().attempts == TRIES
    assert given_up() == {"ear": 1}
    # the page that failed, and each on its own
    assert ear.tried == {"a": 2, "bad": 1 + TRIES, "b": 1}
    assert "of walk bad) could not be handled and is skipped" in caplog.text


def test_a_handler_that_always_dies_is_given_up() -> None:
    ear = Slow(99, dies=True)
    say("a", "bad", "b")
    for _ in range(1 + TRIES):
        with pytest.raises(Killed):
            ear.read()
    assert ear.read() == ["a", "b"]
    assert ear.tried["bad"] == 1 + TRIES
    assert given_up() == {"ear": 1}
    say("c")
    assert ear.read() == ["a", "b", "c"]
    assert read("ear", {TOPIC: ear}) == 0


def test_one_that_dies_alone_holds_up_none_behind_it() -> None:
    ear = Slow(2, dies=True)
    say("a", "bad", "b")
    for _ in range(2):
        with pytest.raises(Killed):
            ear.read()
    assert ear.read() == ["a", "b", "bad"]
    assert not OutboxAttempt.objects.exists()


def test_events_go_on_while_one_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_reader, "PAUSES", Backoff(3600.0, 3600.0))
    ear = Slow(2)
    say("a", "bad", "b")
    assert ear.read() == ["a", "b"]
    say("c")
    assert ear.read() == ["a", "b", "c"]
    assert ear.tried["bad"] == 2
    OutboxAttempt.objects.update(not_before="2026-01-01T00:00Z")
    assert ear.read() == ["a", "b", "bad", "c"]
    assert not OutboxAttempt.objects.exists()


def test_pages_are_read_again_behind_what_was_read_one_by_one() -> None:
    ear = Slow(1)
    say("bad", "b")
    assert ear.read() == ["b", "bad"]
    say("c")
    assert ear.read() == ["b", "bad", "c"]
    assert not OutboxReader.objects.get().is_suspect


def test_an_event_that_is_tried_again_is_not_pruned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ear = Slow(99)
    say("a", "bad", "b")
    ear.read()
    monkeypatch.setattr(outbox_reader, "KEPT_SECONDS", 0)
    assert prune_events() == 2
    assert DomainEvent.objects.get().subject_id == "bad"
    for _ in range(TRIES):
        ear.read()
    assert (prune_events(), given_up()) == (0, {"ear": 1})
    monkeypatch.setattr(outbox_reader, "GIVEN_UP_KEPT_SECONDS", 0)
    assert (prune_events(), given_up()) == (1, {"ear": 0})
