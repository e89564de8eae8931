"""When something has come of a job, and what it says while nothing does."""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Any

import pytest

from catalog.schema.limits import LIMITS
from core.errors import TransientError
from core.sentences import Sentence
from ingest.contract.table import SourceSpec
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.capture.gate import SourceGate
from ingest.driver.capture.stall_timeout import LOOK_SECONDS, SourceWatch
from ingest.sources.port import Waits
from tests.waiting import wait_for


class Spec:
    job_id, attempt = "1", 1


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def run(clock: Clock) -> JobRun:
    spec: Any = Spec()
    return JobRun(spec, lambda ref: NotImplemented, clock=clock)


def test_what_every_attempt_begins_with_is_no_progress(
    run: JobRun, clock: Clock
) -> None:
    for phase in ("checking", "planning", "reading", "planning", "reading"):
        run.enter(phase, done=5)
    run.explain("waits for a lock")
    run.note_work(0)
    clock.now += 60
    assert run.progress.still is None
    assert run.still_seconds == 60


@pytest.mark.parametrize(
    "move",
    [
        lambda run: run.add_done(1),
        lambda run: run.note_work(1),
        lambda run: run.note_answer(),
        lambda run: run.enter("committing"),
    ],
)
def test_rows_work_answers_and_later_phases_are(
    run: JobRun, clock: Clock, move: Any
) -> None:
    clock.now += 60
    move(run)
    clock.now += 7
    assert run.progress.still == run.still_seconds == 7


def test_the_same_again_is_not(run: JobRun, clock: Clock) -> None:
    run.enter("committing")
    run.note_work(10)
    clock.now += 7
    run.enter("committing")
    run.note_work(10)
    assert run.progress.still == 7


SOURCE = SourceSpec(1, "postgresql", "db", 5432, "shop", "reader", "ref")


def test_who_waits_at_the_gate_says_for_what(run: JobRun) -> None:
    gate = SourceGate()
    gate.configure(
        SourceSpec(*[getattr(SOURCE, n) for n in _NAMES], max_parallel_reads=1)
    )
    other: Any = JobRun(Spec(), lambda ref: NotImplemented)  # type: ignore[arg-type]

    def read() -> None:
        with gate.reading(run):
            pass

    with gate.reading(other):
        thread = threading.Thread(target=read)
        thread.start()
        wait_for(lambda: run.progress.reason, "a reason")
        assert run.progress.reason == "waits for one of the source's 1 readers"
        assert other.progress.reason == ""
    thread.join()
    assert run.progress.reason == ""


def test_a_second_reader_of_a_job_at_work_says_nothing(run: JobRun) -> None:
    gate = SourceGate()
    gate.configure(SOURCE)
    stopped = threading.Event()
    run.check = stopped_by(stopped)  # type: ignore[method-assign]
    with gate.reading(run), gate.reading(run):
        thread = threading.Thread(target=enter, args=(gate, run, stopped))
        thread.start()
        thread.join()
    assert run.progress.reason == ""


_NAMES = ("datasource_id", "kind", "host", "port", "database", "username", "secret_ref")


def stopped_by(asked: threading.Event) -> Any:
    """The first look after a wait ends it."""

    def check() -> None:
        asked.set()
        raise InterruptedError

    return check


def enter(gate: SourceGate, run: JobRun, asked: threading.Event) -> None:
    with pytest.raises(InterruptedError), gate.reading(run):
        raise AssertionError("there was no place")
    assert asked.is_set()


class Server:
    """answer: what it says; None = nothing at all. waiting: wait of a reader → its
    session, idle: those for which it has nothing to do"""

    def __init__(self) -> None:
        self.answer: str | None = "its server runs pid 7, for 40 s by now"
        self.waiting: dict[str, int] = {}
        self.idle: set[int] = set()
        self.hung_up = 0

    def idle_of(self, sessions: Collection[int]) -> set[int]:
        if self.answer is None:
            raise TimeoutError
        return {*sessions} & self.idle

    def ask(self) -> str:
        if self.answer is None:
            raise TimeoutError
        return self.answer

    def hang_up(self) -> None:
        self.hung_up += 1


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def watch(run: JobRun, clock: Clock, server: Server) -> SourceWatch:
    return SourceWatch(
        run,
        ask=server.ask,
        waiting=lambda: server.waiting,
        idle=server.idle_of,
        hang_up=server.hang_up,
        clock=clock,
    )


def test_a_server_at_work_is_let_be_and_named(
    run: JobRun, clock: Clock, server: Server, watch: SourceWatch
) -> None:
    clock.now += 29
    watch.look()
    assert run.progress.reason == ""
    for _ in range(100):
        clock.now += 10
        watch.look()
    assert "sent nothing since" in run.progress.reason
    assert "runs pid 7" in run.progress.reason
    assert server.hung_up == 0
    run.add_done(1)
    watch.look()
    assert run.progress.reason == ""


def test_a_server_that_answers_nobody_ends_the_reading(
    run: JobRun, clock: Clock, server: Server, watch: SourceWatch
) -> None:
    server.answer = None
    clock.now += 30
    watch.look()
    assert "new connections get no answer" in run.progress.reason
    clock.now += 59
    watch.look()
    assert server.hung_up == 0
    clock.now += 1
    watch.look()
    assert server.hung_up == 1
    with pytest.raises(TransientError) as failed, watch.watching():
        raise OSError("end of file")
    assert failed.value.code == "source_silent"


def test_one_answer_begins_the_count_anew(
    run: JobRun, clock: Clock, server: Server, watch: SourceWatch
) -> None:
    for answer in (None, "it is there", None):
        server.answer = answer
        clock.now += 40
        watch.look()
    assert (server.hung_up, watch.silence) == (0, None)


def test_one_frozen_reader_of_several_ends_the_reading(
    run: JobRun, clock: Clock, server: Server, watch: SourceWatch
) -> None:
    """Others move all the time, and the server sorts for the second one."""
    server.waiting, server.idle = {"1": 71, "2": 72}, {71, 73}
    for look in range(7):
        assert server.hung_up == 0
        server.waiting[f"passing {look}"] = 73
        watch.look_at_readers()
        del server.waiting[f"passing {look}"]
        run.add_done(1)
        clock.now += 10
        watch.look()
    assert server.hung_up == 1
    assert watch.silence is not None
    assert "answers others" in watch.silence.message


def test_a_frozen_statement_of_the_job_itself_ends_the_reading_after_90_s(
    run: JobRun, clock: Clock, server: Server, watch: SourceWatch
) -> None:
    """Statements before it were answered, and the server knows of nothing to do."""
    waits, begun, server.idle = Waits(clock=clock), clock.now, {71}
    ended: list[float] = []
    with waits.answer():
        while not server.hung_up:
            with waits.answer():
                found = waits.longer_than(LIMITS.quiet)
            assert len(found) == (clock.now - begun >= LIMITS.quiet)
            server.waiting = dict.fromkeys(found, 71)
            watch.look_at_readers()
            ended.append(clock.now - begun)
            clock.now += LOOK_SECONDS
    assert ended[-1] == LIMITS.quiet + LIMITS.unanswered == 90
    assert waits.longer_than(0) == []


def test_readers_for_which_the_server_works_may_wait(
    run: JobRun, clock: Clock, server: Server, watch: SourceWatch
) -> None:
    looks: list[tuple[dict[str, int], set[int] | None]] = [
        ({"1": 71, "2": 72}, set()),
        # its rows come just now
        ({"1": 71, "2": 72}, {72}),
        ({"1": 71, "3": 72}, {72}),
        ({"1": 71, "3": 72}, set()),
        ({}, {71, 72}),
        ({"4": 71}, {71}),
        # no answer is no proof
        ({"4": 71}, None),
        ({"4": 71}, {71}),
    ]
    for server.waiting, idle in looks:
        server.answer = None if idle is None else ""
        server.idle = idle or set()
        watch.look_at_readers()
        clock.now += 100
    assert (server.hung_up, watch.silence) == (0, None)


def test_silence_that_is_noticed_behind_the_reading_ends_nothing(
    run: JobRun, clock: Clock, server: Server, watch: SourceWatch
) -> None:
    """The connection made for the question fails while the job commits by now."""
    server.answer = None
    clock.now += 30
    with watch.watching():
        watch.look()
    clock.now += 60
    watch.look()
    assert (server.hung_up, watch.silence) == (0, None)


def test_who_waits_for_something_else_is_not_asked_about(
    run: JobRun, clock: Clock, server: Server, watch: SourceWatch
) -> None:
    server.answer = None
    waits = Sentence("waits for a transaction at the source: %(holder)s", holder="7")
    run.explain(waits)
    for _ in range(100):
        clock.now += 10
        watch.look()
    assert run.progress.reason == waits
    assert run.progress.sentences == {waits: waits.origin}
    assert server.hung_up == 0
