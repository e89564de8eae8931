"""Children of the supervisor: recognised, ended with their family, never outliving us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from config.supervisor.supervisor import wait_before_restart
from core.files import write_private
from core.processes.child import ChildSpec, spawn
from core.processes.identity import ProcessIdentity, end, read_identity, write_identity
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(600)
"""
PARENT = """
import sys, time
from core.processes.child import ChildSpec, spawn
child = spawn(ChildSpec("child", [sys.executable, "-c", "import time; time.sleep(600)"]))
print(child.pid, flush=True)
time.sleep(600)
"""


def test_a_child_dies_with_a_killed_parent() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PARENT)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    child = ProcessIdentity.of(int(parent.stdout.readline()))
    assert child is not None
    assert child.is_alive()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_for(lambda: not child.is_alive(), "the child to end")


def test_a_deaf_child_is_killed_after_its_grace(tmp_path: Path) -> None:
    log = tmp_path / "deaf.log"
    child = spawn(ChildSpec("deaf", [sys.executable, "-c", DEAF], log=log))
    wait_for(lambda: "deaf" in log.read_text(), "the child to stop listening")
    identity = ProcessIdentity.of(child.pid)
    assert identity is not None
    end([identity], sign=signal.SIGTERM, grace_seconds=0.2)
    assert child.wait(60) == -signal.SIGKILL


def test_servers_get_none_of_our_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_CANARY", "secret")
    log = tmp_path / "environment.log"
    show = [sys.executable, "-c", "import os; print(sorted(os.environ))"]
    spawn(ChildSpec("bare", show, log=log, is_bare=True)).wait(30)
    assert "SLUICE_CANARY" not in log.read_text()
    assert "PATH" in log.read_text()


def test_a_log_is_private(tmp_path: Path) -> None:
    log = tmp_path / "some.log"
    spawn(ChildSpec("some", ["true"], log=log)).wait(30)
    assert log.stat().st_mode & 0o777 == 0o600


def test_an_identity_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "own.pid.json"
    write_identity(path, os.getpid(), "own")
    found = read_identity(path)
    assert found is not None
    assert found.is_alive()
    path.write_text("{half a fi")
    assert read_identity(path) is None


def test_a_private_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "key"
    write_private(path, "one")
    write_private(path, "two")
    assert path.read_text() == "two"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_zombie_counts_as_gone() -> None:
    child = subprocess.Popen(["true"])
    identity = ProcessIdentity(child.pid, time.time())
    wait_for(lambda: not identity.is_alive(), "the zombie to count as gone")
    child.wait()


@pytest.mark.parametrize(
    ("crashes", "seconds"), [(1, 0.5), (2, 1.0), (4, 4.0), (7, 30.0), (1000, 30.0)]
)
def test_restarts_come_later_each_time(crashes: int, seconds: float) -> None:
    assert wait_before_restart(crashes) == seconds
