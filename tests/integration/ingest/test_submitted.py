"""Drivers that outlive their host: found again, seen dead before they count as dead,
ended when nobody owns them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from core.files import write_private
from core.models import Job
from ingest.driver_host import submit
from ingest.driver_host.cluster import App, tag_of
from ingest.driver_host.host import DriverHost
from ingest.driver_host.launcher import Message, mark_of
from ingest.driver_host.submit import SubmitLauncher
from ingest.models import DriverIncarnation
from tests.doubles.launcher import FakeCluster, Fault
from tests.integration.ingest.submitting import HOUSE, submit_command
from tests.integration.ingest.world import World, make_source
from tests.waiting import wait_for

pytestmark = pytest.mark.django_db


class Place:
    """One installation whose hosts come and go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cluster = FakeCluster()
        self.hosts: list[DriverHost] = []
        self.new_host()
        launcher = self.host.launcher
        self.world = World(make_source(), launcher, self.host, time.monotonic)

    @property
    def host(self) -> DriverHost:
        return self.hosts[-1]

    def new_host(self) -> None:
        launcher = SubmitLauncher(submit_command(self.folder), self.cluster)
        self.hosts.append(DriverHost(launcher, place="here"))

    def kill_host(self) -> None:
        """What is left of a killed host: nothing but rows, records and processes."""
        launcher = self.host.launcher
        launcher._stopping.set()  # its threads
        launcher._door.close()
        for work in launcher._works.values():
            if work.connection:
                work.connection.close()

    def fail_with(self, kind: str, fault: Fault) -> None:
        (self.folder / "faults").write_text(f"{kind} {fault.value}\n")

    def until(self, check) -> None:
        def step() -> bool:
            if check():
                return True
            self.host.step(0.05)
            self.world.ticking.tick()
            return False

        wait_for(step, self.world.story, pause=0)

    def job(self) -> Job:
        return self.world.jobs("snapshot")[0]

    def tag(self) -> str:
        return tag_of(HOUSE, str(self.job().pk), str(self.job().attempts))

    def run_hanging_load(self) -> None:
        self.fail_with("snapshot", Fault.HANG)
        self.world.onboard("orders")
        self.until(lambda: self.job().state == "RUNNING")


@pytest.fixture
def place(tmp_path, settings, monkeypatch):
    monkeypatch.setattr("ingest.driver_host.host.FLUSH_SECONDS", 0.1)
    settings.SLUICE_LAUNCHER = "submit"
    made = Place(tmp_path)
    yield made
    for host in made.hosts:
        host.stop()


def test_the_next_host_finds_a_running_job_again(place) -> None:
    place.run_hanging_load()
    pids = mark_of(place.tag()).pids()
    place.kill_host()
    place.new_host()
    place.host.step(0.05)
    incarnations = DriverIncarnation.objects.filter(ended_at=None)
    assert place.job().handle["boot"] == str(incarnations.get().pk)
    place.until(lambda: place.host.in_flight[str(place.job().pk)].progress is not None)
    assert (place.job().state, place.job().attempts) == ("RUNNING", 1)
    assert mark_of(place.tag()).pids() == pids
    place.host.launcher.cancel(str(place.job().pk), "pause")
    place.until(lambda: not mark_of(place.tag()).pids())


class HostKilled(BaseException):
    """Nothing catches it, as nothing would survive."""


def test_what_was_handed_over_to_nobody_is_handed_over_again(
    place, monkeypatch
) -> None:
    """The host dies in the moment in which the process has been started."""
    submit = place.host.launcher.submit

    def submit_and_die(spec, *, isolated: bool) -> None:
        submit(spec, isolated=isolated)
        raise HostKilled

    monkeypatch.setattr(place.host.launcher, "submit", submit_and_die)
    place.world.onboard("orders")
    with pytest.raises(HostKilled):
        place.until(lambda: place.job().state == "SUCCEEDED")
    assert place.job().state == "LAUNCHING"
    place.kill_host()
    place.new_host()
    place.until(lambda: place.job().state == "SUCCEEDED")
    assert place.job().attempts == 1


def test_a_survivor_that_nobody_wants_is_ended(place) -> None:
    place.run_hanging_load()
    tag = place.tag()
    place.kill_host()
    Job.objects.filter(pk=place.job().pk).update(state="CANCELLED")
    place.new_host()
    place.until(lambda: not mark_of(tag).pids())
    place.until(lambda: not list((place.folder / "run" / "submitted").iterdir()))
    assert place.job().state == "CANCELLED"


@pytest.mark.long
def test_a_job_is_unknown_while_the_master_is_away(place) -> None:
    place.run_hanging_load()
    place.cluster.running.append(App("app-1", place.tag()))
    place.cluster.is_away = True
    mark_of(place.tag()).kill()
    place.until(lambda: place.job().state == "UNKNOWN")
    assert "the master does not answer" in place.job().reason
    place.until(
        lambda: place.host.driver is not None and not place.host.driver.is_ready
    )
    place.cluster.is_away = False
    place.until(lambda: place.job().state == "SUCCEEDED")
    assert place.cluster.killed == [tag_of(HOUSE, str(place.job().pk), "1")]
    assert place.job().payload["deaths"] == 1


def test_nothing_is_started_while_the_master_is_away(place) -> None:
    place.cluster.is_away = True
    place.world.onboard("orders")
    place.until(lambda: "the master does not answer" in place.job().reason)
    assert place.job().state == "QUEUED"
    place.cluster.is_away = False
    place.until(lambda: place.job().state == "SUCCEEDED")


def test_an_application_that_nobody_owns_is_ended(place) -> None:
    orphan = App("app-9", tag_of(HOUSE, "lost", "1"))
    place.cluster.running.append(orphan)
    place.until(lambda: place.cluster.killed == [orphan.tag])


def test_a_process_that_says_nothing_is_killed(place) -> None:
    place.fail_with("snapshot", Fault.FORGET)
    place.world.onboard("orders")
    place.until(lambda: place.job().state == "RUNNING")
    flight = place.host.in_flight[str(place.job().pk)]
    flight.seen -= 100
    place.until(lambda: place.job().attempts == 2)
    place.until(lambda: place.job().state == "SUCCEEDED")


def test_stopping_leaves_nothing_and_holds_nothing_against_the_job(place) -> None:
    place.run_hanging_load()
    tag = place.tag()
    place.host.stop()
    assert mark_of(tag).pids() == []
    assert not list((place.folder / "run" / "submitted").iterdir())
    assert place.job().state == "QUEUED"
    assert place.job().payload.get("deaths", 0) == 0


def test_a_submission_that_cannot_begin_is_tried_again(place, monkeypatch) -> None:
    """No memory for a process, or no room for its record, in that moment."""
    real, failures = submit.spawn, [OSError("no memory")]

    def spawn(spec):
        if failures:
            raise failures.pop()
        return real(spec)

    monkeypatch.setattr(submit, "spawn", spawn)
    place.world.onboard("orders")
    place.until(lambda: place.world.pipeline("orders").state == "LIVE")
    assert not failures
    # each time it waits longer: a launcher that never starts anything is no hot loop
    assert place.job().payload["deaths_seen"] == 1


def test_of_several_recorded_attempts_the_newest_is_the_jobs(tmp_path) -> None:
    command = submit_command(tmp_path)
    for attempt in (10, 2):
        tag = tag_of(HOUSE, "a-job", str(attempt))
        record = {"job_id": "a-job", "attempt": attempt, "tag": tag}
        write_private(command.records / f"{tag}.json", json.dumps(record))
    launcher = SubmitLauncher(command, None)
    launcher.start("1")
    messages: list[Message] = []
    try:
        # neither has a process any more
        wait_for(
            lambda: (
                messages.extend(launcher.poll(0.05))
                or not list(command.records.iterdir())
            ),
            lambda: messages,
        )
    finally:
        launcher.stop()
    died = [message for message in messages if message.kind == "died"]
    assert [message.data["attempt"] for message in died] == [10]
