"""The outbox on a real server: appended with the change, read once, in order."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

import pytest
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext

from core import outbox, outbox_reader
from core.advance import advance, advance_all
from core.errors import StaleState
from core.models import DomainEvent, Job, JobEvent
from core.outbox import NewEvent
from core.outbox_reader import TRIES, Event, given_up, lag, prune_events, read
from core.retries import Backoff
from tests.waiting import LIMIT_SECONDS, wait_for

TOPIC = "walk.ended"


class Killed(BaseException):
    """No handler of errors catches it, as none outlives a kill."""


def say(*names: str) -> None:
    outbox.append(*(NewEvent(TOPIC, "walk", name) for name in names))


class Heard(list[str]):
    """A reader whose effect is a job of the event's name."""

    def __call__(self, event: Event) -> None:
        Job.objects.create(kind="heard", subject=event.subject_id)

    def read(self) -> list[str]:
        read({TOPIC: self})
        self[:] = Job.objects.filter(kind="heard").values_list("subject", flat=True)
        return sorted(self)


@pytest.fixture
def heard() -> Heard:
    return Heard()


class Elsewhere:
    """Another connection, whose transactions last as long as a test wants."""

    def __init__(self) -> None:
        self.link = connections.create_connection("default")
        self.link.connect()

    def say(self, name: str) -> None:
        with self.link.cursor() as cursor:
            cursor.execute(
                "INSERT INTO core_domainevent (topic, subject, subject_id, data)"
                " VALUES (%s, 'walk', %s, '{}')",
                [TOPIC, name],
            )


@pytest.fixture
def elsewhere(transactional_db: None) -> Iterator[Elsewhere]:
    one = Elsewhere()
    yield one
    one.link.close()


@pytest.mark.django_db
def test_a_move_is_written_by_one_statement() -> None:
    job = Job.objects.create(kind="walk", subject_id="7")
    with CaptureQueriesContext(connection) as asked:
        advance(job, "enqueue", actor="ann", reason="asked")
    written = [q["sql"] for q in asked if "SAVEPOINT" not in q["sql"]]
    assert len(written) == 2, "the row, and what is known of its move"
    (move,) = JobEvent.objects.values_list("event", "before", "after", "actor")
    assert move == ("enqueue", "PLANNED", "QUEUED", "ann")
    assert not DomainEvent.objects.exists(), "who wants to know reads the history"


@pytest.mark.django_db
def test_a_move_that_is_an_event_is_appended_by_the_same_statement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    facts = property(lambda job: {"of": job.subject_id})
    monkeypatch.setattr(Job, "event_facts", facts, raising=False)
    job = Job.objects.create(kind="walk", subject_id="7")
    with CaptureQueriesContext(connection) as asked:
        advance(job, "enqueue", actor="ann", reason="asked")
    assert sum("SAVEPOINT" not in q["sql"] for q in asked) == 2
    event = DomainEvent.objects.get()
    assert (event.topic, event.subject_id) == ("job.moved", str(job.pk))
    moved = {"event": "enqueue", "before": "PLANNED", "after": "QUEUED"}
    assert event.data == {"v": 1, **moved, "of": "7"}
    assert JobEvent.objects.count() == 1


@pytest.mark.django_db
def test_many_moves_are_one_statement_and_a_refused_one_is_none() -> None:
    jobs = [Job.objects.create(kind="walk", subject_id=str(n)) for n in range(50)]
    with CaptureQueriesContext(connection) as asked:
        advance_all(jobs, "enqueue", actor="ann")
    assert sum("core_jobevent" in q["sql"] for q in asked) == 1
    assert JobEvent.objects.count() == 50
    Job.objects.filter(pk=jobs[-1].pk).update(state="LAUNCHING")
    with pytest.raises(StaleState):
        advance_all(jobs, "claim")
    assert JobEvent.objects.count() == 50


@pytest.mark.django_db(transaction=True)
def test_each_event_is_read_once_in_order_and_none_costs_one_statement(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_reader, "PAGE", 2)
    say("a", "b", "c")
    outbox.append(NewEvent("of.no.handler", "walk", "x"))
    say("d")
    assert lag() > 0
    assert heard.read() == ["a", "b", "c", "d"]
    subjects = Job.objects.order_by("created_at").values_list("subject", flat=True)
    assert list(subjects) == ["a", "b", "c", "d"]
    with CaptureQueriesContext(connection) as asked:
        assert read({TOPIC: heard}) == 0
    assert len(asked) == 1
    assert (lag(), DomainEvent.objects.count()) == (0, 0)


@pytest.mark.django_db(transaction=True)
def test_killed_between_effect_and_cursor_it_is_handled_again_and_once(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    say("a", "b")

    def die(event: Event) -> None:
        heard(event)
        if event.subject_id == "b":
            raise Killed

    with pytest.raises(Killed):
        read({TOPIC: die})
    assert not Job.objects.exists()
    assert heard.read() == ["a", "b"]
    assert heard.read() == ["a", "b"]


@pytest.mark.django_db(transaction=True)
def test_an_event_that_cannot_be_handled_holds_up_none_behind_it(
    heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    say("a", "bad", "b")

    def choke(event: Event) -> None:
        heard(event)
        if event.subject_id == "bad":
            raise KeyError("defect")

    assert read({TOPIC: choke}) == 3
    assert heard.read() == ["a", "b"]
    assert "of walk bad) could not be handled and is skipped" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_a_reader_whose_time_is_over_goes_on_where_it_was(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_reader, "SECONDS", 0)
    say("a", "bad", "b")

    def choke(event: Event) -> None:
        if event.subject_id == "bad":
            raise KeyError("defect")
        heard(event)

    # of the page that fails nothing; then each on its own
    assert [read({TOPIC: choke}) for _ in range(5)] == [1, 0, 1, 1, 0]
    assert heard.read() == ["a", "b"]


def test_what_commits_late_is_not_passed_by(elsewhere: Elsewhere, heard: Heard) -> None:
    """It took its id before one that committed first."""
    elsewhere.link.set_autocommit(False)
    elsewhere.say("first")
    say("second")
    assert heard.read() == ["second"]
    elsewhere.link.commit()
    assert heard.read() == ["first", "second"]
    elsewhere.say("third")
    elsewhere.link.rollback()
    say("fourth")
    assert heard.read() == ["first", "fourth", "second"]


@pytest.mark.django_db(transaction=True)
def test_two_readers_at_once_are_one(heard: Heard) -> None:
    say("a")
    inside, go_on = threading.Event(), threading.Event()

    def slow(event: Event) -> None:
        heard(event)
        inside.set()
        go_on.wait(LIMIT_SECONDS)

    def first() -> None:
        try:
            read({TOPIC: slow})
        finally:
            connection.close()

    one = threading.Thread(target=first)
    one.start()
    assert inside.wait(LIMIT_SECONDS)
    assert heard.read() == [], "the other one has it, and nobody waits"
    go_on.set()
    one.join(LIMIT_SECONDS)
    assert heard.read() == ["a"]


def crowd(number: int, failures: list[BaseException]) -> None:
    try:
        for step in range(20):
            with transaction.atomic():
                say(f"{number}.{step}.0")
                say(f"{number}.{step}.1")
    except BaseException as error:  # noqa: BLE001 - told to the test's own thread
        failures.append(error)
    finally:
        connection.close()


@pytest.mark.django_db(transaction=True)
def test_nothing_is_lost_or_doubled_among_many_who_append_and_read(
    heard: Heard,
) -> None:
    failures: list[BaseException] = []
    threads = [threading.Thread(target=crowd, args=[n, failures]) for n in range(4)]
    for thread in threads:
        thread.start()
    wait_for(lambda: len(heard.read()) == 160, "all events are read")
    for thread in threads:
        thread.join(LIMIT_SECONDS)
    assert failures == []
    assert sorted(set(heard.read())) == heard.read()


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


@pytest.fixture
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_reader, "PAUSES", Backoff(0.0, 0.0))


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("_no_pauses")
def test_a_handler_that_always_times_out_is_given_up(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ear = Slow(99)
    say("a", "bad", "b")
    assert ear.read() == ["a", "b"]
    # the page that failed, and each on its own
    assert ear.tried == {"a": 2, "bad": 1 + TRIES, "b": 1}
    assert "of walk bad) could not be handled and is skipped" in caplog.text
    assert (given_up(), lag(), prune_events()) == (1, 0, 0)
    monkeypatch.setattr(outbox_reader, "GIVEN_UP_KEPT_SECONDS", 0)
    assert (prune_events(), given_up()) == (1, 0)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("_no_pauses")
def test_a_handler_that_always_dies_is_given_up() -> None:
    ear = Slow(99, dies=True)
    say("a", "bad", "b")
    for _ in range(1 + TRIES):
        with pytest.raises(Killed):
            ear.read()
    assert ear.read() == ["a", "b"]
    assert ear.tried["bad"] == 1 + TRIES
    assert given_up() == 1
    say("c")
    assert ear.read() == ["a", "b", "c"]


@pytest.mark.django_db(transaction=True)
def test_events_go_on_while_one_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_reader, "PAUSES", Backoff(3600.0, 3600.0))
    ear = Slow(2)
    say("a", "bad", "b")
    assert ear.read() == ["a", "b"]
    say("c")
    assert ear.read() == ["a", "b", "c"]
    assert ear.tried["bad"] == 2
    DomainEvent.objects.update(not_before="2026-01-01T00:00Z")
    assert ear.read() == ["a", "b", "bad", "c"]
    assert not DomainEvent.objects.exists()
