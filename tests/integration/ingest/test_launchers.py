"""Real processes, told by the host's effect on rows: nothing is ever left behind, and
no driver counts as dead before its application is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from core.models import Job
from core.processes.child import ChildSpec, spawn
from ingest.driver_host.cluster import App, tag_of
from ingest.driver_host.host import DriverHost
from ingest.driver_host.launcher import MARK
from ingest.driver_host.warm import DriverCommand, WarmLauncher, kill_leftovers
from ingest.models import DriverIncarnation
from ingest.pipelines import table_commands
from tests.doubles.launcher import FakeCluster, Fault
from tests.integration.ingest.world import World, make_source
from tests.long_tests import first_then_long
from tests.waiting import wait_for

HOUSE = "0123456789ab"
STUB = Path(__file__).with_name("stub_driver.py")
ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.django_db


def command(folder: Path) -> DriverCommand:
    faults = folder / "faults"
    faults.touch()
    return DriverCommand(
        program=[sys.executable, str(STUB), str(faults)],
        environment={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        log_file=folder / "logs" / "driver.log",
        pid_file=folder / "run" / "driver.pid.json",
        scratch=folder / "scratch",
        instance=HOUSE,
    )


class Stage:
    """A world of real processes; time is real."""

    def __init__(self, launcher, folder: Path) -> None:
        self.launcher, self.folder = launcher, folder
        self.world = World(
            make_source(), launcher, DriverHost(launcher, place="here"), time.monotonic
        )

    def fail_with(self, kind: str, *faults: Fault) -> None:
        text = "".join(f"{kind} {fault.value}\n" for fault in faults)
        (self.folder / "faults").write_text(text)

    def until(self, check) -> None:
        def step() -> bool:
            if check():
                return True
            self.world.host.step(0.05)
            self.world.ticking.tick()
            return False

        wait_for(step, self.world.story, pause=0)

    def until_live(self) -> None:
        self.until(lambda: self.world.pipeline("orders").state == "LIVE")

    def load(self) -> Job:
        return self.world.jobs("snapshot")[0]


@contextmanager
def staged(launcher: WarmLauncher, folder: Path) -> Iterator[Stage]:
    made = Stage(launcher, folder)
    yield made
    made.world.host.stop()
    assert not launcher.is_running


@pytest.fixture
def stage(tmp_path, monkeypatch) -> Iterator[Stage]:
    monkeypatch.setattr("ingest.driver_host.host.FLUSH_SECONDS", 0.1)
    with staged(WarmLauncher(command(tmp_path)), tmp_path) as made:
        yield made


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def clustered(tmp_path, monkeypatch, cluster) -> Iterator[Stage]:
    monkeypatch.setattr("ingest.driver_host.host.FLUSH_SECONDS", 0.1)
    with staged(WarmLauncher(command(tmp_path), cluster), tmp_path) as made:
        yield made


def test_it_carries_a_table(stage) -> None:
    stage.world.onboard("orders")
    stage.until_live()
    assert {j.state for j in Job.objects.all()} == {"SUCCEEDED"}


@pytest.mark.parametrize(
    "fault", first_then_long(Fault.DIE_COMMITTED, Fault.DIE_RUNNING, Fault.TRANSIENT)
)
def test_it_survives(stage, fault) -> None:
    stage.fail_with("snapshot", fault)
    stage.world.onboard("orders")
    stage.until_live()
    stage.until(lambda: all(job.is_finished for job in Job.objects.all()))
    assert {j.state for j in Job.objects.all()} == {"SUCCEEDED"}


def test_two_deaths_mean_a_process_of_its_own(stage) -> None:
    stage.fail_with("snapshot", Fault.DIE_RUNNING, Fault.DIE_RUNNING)
    stage.world.onboard("orders")
    stage.until_live()
    assert stage.load().handle["isolated"] is True


def test_pause_reaches_it(stage) -> None:
    stage.fail_with("snapshot", Fault.HANG)
    stage.world.onboard("orders")
    stage.until(lambda: stage.load().state == "RUNNING")
    table_commands.pause(stage.world.lake("orders"), actor="ann")
    stage.until(lambda: stage.load().state == "CANCELLED")
    assert stage.world.pipeline("orders").state == "PAUSED"


def test_stopping_it_is_not_held_against_the_job(stage) -> None:
    stage.fail_with("snapshot", Fault.HANG)
    stage.world.onboard("orders")
    stage.until(lambda: stage.load().state == "RUNNING")
    stage.world.host.stop()
    job = stage.load()
    assert (job.state, job.payload.get("deaths", 0)) == ("QUEUED", 0)
    assert not DriverIncarnation.objects.filter(ended_at=None).exists()


# --------------------------------------------------------------------- a cluster


@pytest.mark.parametrize("deaths", first_then_long(0, 2))
def test_a_job_is_unknown_while_the_master_is_away(clustered, cluster, deaths) -> None:
    """deaths: of the shared driver; after two it has one of its own."""
    faults = [*[Fault.DIE_RUNNING] * deaths, Fault.HANG]
    clustered.fail_with("snapshot", *faults)
    clustered.world.onboard("orders")
    clustered.until(
        lambda: (
            clustered.load().state == "RUNNING"
            and clustered.load().attempts == deaths + 1
        )
    )
    origin = str(clustered.load().pk) if deaths else ""
    tag = tag_of(HOUSE, origin, str(clustered.world.host.driver.id))
    cluster.running.append(App("app-1", tag))
    cluster.is_away = True
    clustered.launcher.kill(origin)
    clustered.until(lambda: clustered.load().state == "UNKNOWN")
    assert "the master does not answer" in clustered.load().reason
    cluster.is_away = False
    clustered.until(lambda: clustered.load().state == "SUCCEEDED")
    assert cluster.killed == [tag]
    assert clustered.load().payload["deaths"] == deaths + 1


def test_an_application_that_nobody_owns_is_ended(clustered, cluster) -> None:
    orphan = App("app-9", tag_of(HOUSE, "lost", "1"))
    cluster.running.append(orphan)
    clustered.until(lambda: cluster.killed == [orphan.tag])


# --------------------------------------------------------------------- processes


def marked(incarnation: str) -> list[int]:
    found = []
    for process in psutil.process_iter():
        try:
            alive = process.status() != psutil.STATUS_ZOMBIE
            if alive and process.environ().get(MARK) == incarnation:
                found.append(process.pid)
        except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
            continue
    return found


def started(tmp_path, incarnation: str) -> WarmLauncher:
    launcher = WarmLauncher(command(tmp_path))
    launcher.start(incarnation)
    hear(launcher, "ready")
    assert len(marked(incarnation)) == 2
    return launcher


def hear(launcher: WarmLauncher, kind: str) -> None:
    wait_for(lambda: any(m.kind == kind for m in launcher.poll(0.2)), kind, pause=0)


@pytest.fixture
def incarnation() -> str:
    return str(uuid.uuid4())


def test_stop_ends_the_whole_group(tmp_path, incarnation) -> None:
    launcher = started(tmp_path, incarnation)
    arguments = psutil.Process(launcher.pid).cmdline()
    scratch = Path(arguments[arguments.index("--scratch") + 1])
    assert scratch.is_dir()
    launcher.stop()
    assert marked(incarnation) == []
    assert not scratch.exists()


def test_death_is_said_only_once_all_of_it_is_dead(tmp_path, incarnation) -> None:
    launcher = started(tmp_path, incarnation)
    assert launcher.pid is not None
    unpacked = tmp_path / "scratch" / "warm" / "liblz4-java-1.so"
    unpacked.touch()  # as a JVM does, and one that is killed cannot undo
    os.kill(launcher.pid, signal.SIGKILL)
    hear(launcher, "died")
    assert marked(incarnation) == []
    assert not unpacked.exists()
    launcher.stop()


HOST = """
import os, sys, time
import django
from pathlib import Path
sys.path.insert(0, sys.argv[2])
os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
django.setup()
from tests.integration.ingest.test_launchers import command
from ingest.driver_host.warm import WarmLauncher
launcher = WarmLauncher(command(Path(sys.argv[1])))
launcher.start(sys.argv[3])
while not any(m.kind == "ready" for m in launcher.poll(0.2)):
    pass
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def host_process(tmp_path, sluice_environment, incarnation):
    made = subprocess.Popen(
        [sys.executable, "-c", HOST, str(tmp_path), str(ROOT), incarnation],
        stdout=subprocess.PIPE,
        env={**sluice_environment, "PYTHONPATH": str(ROOT)},
        text=True,
    )
    yield made
    made.kill()
    made.wait()
    assert made.stdout is not None
    made.stdout.close()


def test_a_killed_host_takes_its_driver_along_and_the_next_finds_the_rest(
    host_process, tmp_path, incarnation
) -> None:
    assert host_process.stdout.readline() == "ready\n"
    leader, child = sorted(marked(incarnation))
    host_process.kill()
    host_process.wait()
    wait_for(
        lambda: leader not in marked(incarnation), "the driver to end with its host"
    )
    # what the driver had started may still be there: the next host ends it
    kill_leftovers(tmp_path / "run" / "driver.pid.json")
    wait_for(lambda: not marked(incarnation), "what the driver had started to end")
    assert not psutil.pid_exists(child) or child not in marked(incarnation)


def test_a_reused_pid_in_the_file_of_an_earlier_host_is_left_alone(
    tmp_path, incarnation
) -> None:
    """Neither what is not as old as recorded, nor what has not our mark."""
    stranger = spawn(ChildSpec("stranger", ["sleep", "600"]))
    born = stranger.identity.start_time
    path = tmp_path / "driver.pid.json"
    for started, mark in [(born - 100, incarnation), (born, incarnation)]:
        child = {"pid": stranger.pid, "started": started, "job": "", "boot": mark}
        path.write_text(json.dumps({"boot": mark, "children": [child]}))
        assert kill_leftovers(path) == []
        assert not path.exists()
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def test_a_denied_address_is_told_instead_of_the_secret(stage, settings) -> None:
    stage.world.onboard("orders")
    settings.SLUICE_SOURCE_NETWORKS_DENIED = ["127.0.0.0/8"]
    stage.until(lambda: stage.world.pipeline("orders").state == "FAILED")
    job = stage.load()
    assert (job.state, job.error_code) == ("FAILED", "network_denied")
