"""The outbox on a real server: appended with the change, read once, in order."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext

from core import outbox, outbox_reader
from core.advance import advance, advance_all
from core.context import working_for
from core.errors import StaleState
from core.models import DomainEvent, Job, JobEvent, OutboxReader
from core.outbox import NewEvent
from core.outbox_reader import Event, lags, prune_events, read
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

    def read(self, name: str = "ear") -> list[str]:
        read(name, {TOPIC: self})
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

    def run(self, statement: str) -> None:
        with self.link.cursor() as cursor:
            cursor.execute(statement)


@pytest.fixture
def elsewhere(transactional_db: None) -> Iterator[Elsewhere]:
    one = Elsewhere()
    yield one
    one.link.close()


@pytest.mark.django_db
def test_a_move_writes_history_and_event_by_one_statement() -> None:
    job = Job.objects.create(kind="walk", subject_id="7")
    with CaptureQueriesContext(connection) as asked, working_for(request_id="r1"):
        advance(job, "enqueue", actor="ann", reason="asked")
    written = [q["sql"] for q in asked if "SAVEPOINT" not in q["sql"]]
    assert len(written) == 2, "the row, and what is known of its move"
    event = DomainEvent.objects.get()
    assert (event.topic, event.subject, event.subject_id) == (
        "job.moved",
        "job",
        str(job.pk),
    )
    assert (event.actor, event.request_id) == ("ann", "r1")
    assert event.data == {
        "v": 1,
        "event": "enqueue",
        "before": "PLANNED",
        "after": "QUEUED",
        "kind": "walk",
        "of": "7",
    }
    (move,) = JobEvent.objects.values_list("event", "before", "after", "actor")
    assert move == ("enqueue", "PLANNED", "QUEUED", "ann")


@pytest.mark.django_db
def test_many_moves_are_one_statement_and_a_refused_one_is_none() -> None:
    jobs = [Job.objects.create(kind="walk", subject_id=str(n)) for n in range(50)]
    with CaptureQueriesContext(connection) as asked:
        advance_all(jobs, "enqueue", actor="ann")
    assert sum("core_domainevent" in q["sql"] for q in asked) == 1
    assert JobEvent.objects.count() == DomainEvent.objects.count() == 50
    Job.objects.filter(pk=jobs[-1].pk).update(state="LAUNCHING")
    with pytest.raises(StaleState):
        advance_all(jobs, "claim")
    assert JobEvent.objects.count() == DomainEvent.objects.count() == 50


@pytest.mark.django_db(transaction=True)
def test_each_event_is_read_once_by_each_reader_and_none_costs_one_statement(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_reader, "PAGE", 2)
    say("a", "b", "c")
    say("d")
    assert heard.read() == ["a", "b", "c", "d"]
    with CaptureQueriesContext(connection) as asked:
        assert read("ear", {TOPIC: heard}) == 0
    assert len(asked) == 1
    assert heard.read("second ear") == sorted("abcd" * 2)
    assert heard.read("second ear") == sorted("abcd" * 2)


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
        read("ear", {TOPIC: die})
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

    assert read("ear", {TOPIC: choke}) == 3
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

    assert [read("ear", {TOPIC: choke}) for _ in range(4)] == [1, 1, 1, 0]
    assert heard.read() == ["a", "b"]


def test_what_commits_late_is_not_passed_by(elsewhere: Elsewhere, heard: Heard) -> None:
    """It took its id, and its transaction, before one that committed first."""
    elsewhere.link.set_autocommit(False)
    elsewhere.say("first")
    say("second")
    ids = DomainEvent.objects.values_list("subject_id", flat=True)
    assert list(ids) == ["second"]
    assert heard.read() == [], "not before the older one has ended"
    assert lags()["ear"] > 0
    elsewhere.link.commit()
    assert heard.read() == ["first", "second"]
    assert [e.subject_id for e in DomainEvent.objects.order_by("id")] == [
        "first",
        "second",
    ]
    assert lags() == {"ear": 0}
    elsewhere.say("third")
    elsewhere.link.rollback()
    say("fourth")
    assert heard.read() == ["first", "fourth", "second"]


def test_readers_of_the_database_hold_back_nothing_and_idle_writers_do(
    elsewhere: Elsewhere, heard: Heard
) -> None:
    """A dump reads for hours, in a snapshot of its own, and has no transaction id."""
    elsewhere.link.set_autocommit(False)
    elsewhere.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    elsewhere.run("SELECT count(*) FROM core_job")
    say("a")
    assert heard.read() == ["a"]
    elsewhere.link.rollback()
    elsewhere.run("CREATE TEMPORARY TABLE busy (n int)")
    say("b")
    assert heard.read() == ["a"]
    elsewhere.link.rollback()
    assert heard.read() == ["a", "b"]


@pytest.mark.django_db(transaction=True)
def test_two_readers_at_once_are_one(heard: Heard) -> None:
    heard.read()
    say("a")
    inside, go_on = threading.Event(), threading.Event()

    def slow(event: Event) -> None:
        heard(event)
        inside.set()
        go_on.wait(LIMIT_SECONDS)

    def first() -> None:
        try:
            read("ear", {TOPIC: slow})
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


@pytest.mark.django_db(transaction=True)
def test_what_every_reader_has_passed_is_pruned_after_a_while(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_reader, "PRUNE_PAGE", 2)
    heard.read()
    read("slow", {})
    say(*"abcde")
    heard.read()
    monkeypatch.setattr(outbox_reader, "KEPT_SECONDS", 0)
    assert prune_events() == 0, "one has not read them"
    read("slow", {})
    monkeypatch.setattr(outbox_reader, "KEPT_SECONDS", 3600)
    assert prune_events() == 0
    monkeypatch.setattr(outbox_reader, "KEPT_SECONDS", 0)
    say("f")
    assert prune_events() == 5
    assert heard.read() == [*"abcdef"]


@pytest.mark.django_db(transaction=True)
def test_a_database_from_another_server_is_read_on_from_where_it_was(
    heard: Heard,
) -> None:
    """Its transactions have numbers that this server gives out much later."""
    say("read")
    heard.read()
    say("unread")
    far = "SET transaction = (transaction::text::bigint + 1000000000)::text::xid8"
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE core_domainevent {far}")
        cursor.execute(f"UPDATE core_outboxreader {far}")
    say("new")
    assert heard.read() == ["new", "read", "unread"]
    say("newer")
    assert heard.read() == ["new", "newer", "read", "unread"]
    assert OutboxReader.objects.get().event == DomainEvent.objects.latest("id").pk


@pytest.mark.django_db(transaction=True)
def test_an_adoption_reads_on_before_the_numbers_of_the_other_server_come(
    heard: Heard,
) -> None:
    """What a restore brings along is renumbered before anything is appended that the
    cursor, which stands above, would take for read."""
    say("read")
    heard.read()
    ahead = "SET transaction = (transaction::text::bigint + 40)::text::xid8"
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE core_domainevent {ahead}")
        cursor.execute(f"UPDATE core_outboxreader {ahead}")
    outbox_reader.read_on_after_restore()
    for number in range(60):
        say(f"new {number}")
    assert len(heard.read()) == 61
