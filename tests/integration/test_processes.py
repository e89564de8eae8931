"""Children of the supervisor: recognised, ended with their family, never outliving us."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from config.supervisor.home import make_keys
from core.files import write_private
from core.processes.child import Child, ChildSpec, spawn, stop_all
from core.processes.identity import ProcessIdentity, end, read_identity, write_identity
from core.processes.marks import Mark
from core.processes.talking import TalkingChild, end_all
from tests.waiting import LIMIT_SECONDS, wait_for

ROOT = Path(__file__).resolve().parents[2]
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(600)
"""
PARENT = """
import signal, sys, time
from pathlib import Path
from core.processes.child import ChildSpec, spawn
code, sign, log = sys.argv[1:]
spec = ChildSpec(
    "child", [sys.executable, "-c", code], log=Path(log),
    death_signal=signal.Signals[sign],
)
child = spawn(spec)
while "deaf" in code and "deaf" not in Path(log).read_text():
    time.sleep(0.01)
print(child.pid, flush=True)
time.sleep(600)
"""
WITH_CHILD = "sleep 600 & echo $!; "


@pytest.mark.parametrize(
    ("code", "death_signal"), [(SLEEP[2], "SIGTERM"), (DEAF, "SIGKILL")]
)
def test_a_child_dies_with_a_killed_parent(
    code: str, death_signal: str, tmp_path: Path
) -> None:
    log = str(tmp_path / "child.log")
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PARENT), code, death_signal, log],
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
    assert child.wait(LIMIT_SECONDS) == -signal.SIGKILL


def test_all_are_asked_at_once_and_the_deaf_are_killed(tmp_path: Path) -> None:
    log = tmp_path / "deaf.log"
    deaf = spawn(ChildSpec("deaf", [sys.executable, "-c", DEAF], log=log))
    good = spawn(ChildSpec("good", SLEEP))
    wait_for(lambda: "deaf" in log.read_text(), "the child to stop listening")
    stop_all([deaf, good], grace_seconds=0.2)
    assert (deaf.poll(), good.poll()) == (-signal.SIGKILL, -signal.SIGTERM)


@pytest.mark.parametrize(
    ("script", "ends", "code"),
    [
        ("exit 3", lambda child: None, 3),
        ("wait", lambda child: child.kill(), -signal.SIGKILL),
        ("wait", lambda child: stop_all([child]), -signal.SIGTERM),
        ("wait", lambda child: os.kill(child.pid, signal.SIGKILL), -signal.SIGKILL),
    ],
)
def test_a_group_ends_with_its_leader(
    script: str, ends: Callable[[Child], None], code: int
) -> None:
    child = spawn(ChildSpec("sh", ["sh", "-c", WITH_CHILD + script], has_pipes=True))
    below = ProcessIdentity.of(int(child.stdout.readline()))
    assert below is not None
    ends(child)
    assert child.wait() == code
    wait_for(lambda: not below.is_alive(), "the rest of the group to end")
    child.stdin.close()
    child.stdout.close()


def test_a_wait_has_a_limit() -> None:
    child = spawn(ChildSpec("sleep", SLEEP))
    assert child.wait(0.05) is None
    assert child.poll() is None
    child.kill()
    assert child.wait() == -signal.SIGKILL


def test_a_pid_that_was_given_back_is_not_signalled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once its end was seen, another process may have its pid."""
    child = spawn(ChildSpec("true", ["true"]))
    assert child.wait() == 0
    sent: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, sign: sent.append(pid))
    monkeypatch.setattr(os, "killpg", lambda pid, sign: sent.append(pid))
    child.ask()
    child.kill()
    stop_all([child])
    assert sent == []


def test_a_child_that_another_hand_collected_has_no_group_to_kill(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    child = spawn(ChildSpec("true", ["true"]))
    os.waitpid(child.pid, 0)
    sent: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda pid, sign: sent.append(pid))
    assert child.wait() is not None
    assert sent == []


@pytest.mark.parametrize("text", [
    '{{"pid": {pid}, "start_time": {other}}}',
    '{{"pid": {pid}, "born": {other}}}',
    '{{"pid": {pid}}}',
])  # fmt: skip
def test_a_reused_pid_is_left_alone(text: str, tmp_path: Path) -> None:
    child = spawn(ChildSpec("sleep", SLEEP))
    path = tmp_path / "earlier.pid.json"
    other = child.identity.start_time - 100
    path.write_text(text.format(pid=child.pid, other=other))
    found = read_identity(path)
    assert found is not None
    assert not found.is_alive()
    assert not found.kill_group()
    end([found], grace_seconds=0.1)
    assert child.wait(0.2) is None
    assert child.identity.kill_group()
    assert child.wait() == -signal.SIGKILL


def test_a_zombie_still_leads_its_group() -> None:
    """A pid 1 that does not reap keeps it, and others of the group may live."""
    command = ["sh", "-c", WITH_CHILD + "exit 0"]
    leader = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert leader.stdout is not None
    below = ProcessIdentity.of(int(leader.stdout.readline()))
    identity = ProcessIdentity.of(leader.pid)
    assert below is not None
    assert identity is not None
    wait_for(lambda: not identity.is_alive(), "the leader to end")
    assert identity.kill_group()
    wait_for(lambda: not below.is_alive(), "the rest of its group to end")
    leader.wait()
    leader.stdout.close()


def test_a_mark_finds_what_the_marked_started() -> None:
    mark = Mark("SLUICE_TEST_MARK", uuid.uuid4().hex)
    child = spawn(
        ChildSpec(
            "sh",
            ["sh", "-c", WITH_CHILD + "wait"],
            environment={mark.variable: mark.value},
            has_pipes=True,
        )
    )
    below = int(child.stdout.readline())
    marked = sorted([child.pid, below])
    # one that is just becoming `sleep` shows no environment
    wait_for(lambda: sorted(mark.pids()) == marked, "both to be found")
    assert Mark(mark.variable, "").pids() == []
    assert sorted(mark.kill()) == marked
    assert child.wait() == -signal.SIGKILL
    wait_for(lambda: not mark.pids(), "both to end")
    child.stdin.close()
    child.stdout.close()


def test_a_child_that_does_not_listen_blocks_nobody(tmp_path: Path) -> None:
    codes: list[int | None] = []
    child = TalkingChild(
        ChildSpec("deaf", SLEEP, log=tmp_path / "log"),
        {"type": "hello"},
        hear=lambda message: None,
        ended=codes.append,
    )
    child.talk()
    child.send({"type": "large", "text": "x" * 1_000_000})  # more than a pipe holds
    end_all([child], seconds=0.1)
    assert codes == [-signal.SIGKILL]


def test_servers_get_none_of_our_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_CANARY", "secret")
    log = tmp_path / "environment.log"
    show = [sys.executable, "-c", "import os; print(sorted(os.environ))"]
    spawn(ChildSpec("bare", show, log=log, inherits="path")).wait(LIMIT_SECONDS)
    assert "SLUICE_CANARY" not in log.read_text()
    assert "PATH" in log.read_text()


def test_what_a_child_makes_is_private(tmp_path: Path) -> None:
    """Results, scratch and spill files of a home hold rows of others."""
    made = tmp_path / "folder"
    make = f"import os; os.mkdir({str(made)!r}); open({str(made / 'f')!r}, 'w')"
    child = spawn(ChildSpec("maker", [sys.executable, "-c", make]))
    assert child.wait() == 0
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert stat.S_IMODE((made / "f").stat().st_mode) == 0o600


def test_a_home_is_private(tmp_path: Path) -> None:
    make_keys(tmp_path / "home")
    for path in (tmp_path / "home").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700


def test_a_log_is_private(tmp_path: Path) -> None:
    log = tmp_path / "some.log"
    spawn(ChildSpec("some", ["true"], log=log)).wait(LIMIT_SECONDS)
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
