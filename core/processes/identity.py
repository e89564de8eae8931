"""A process is its pid and its start time, because pids are used again.

So a pid file, however old, never leads to the end of another process. Everything is
read through psutil, so it works in a container without `ps`.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from core.files import write_private

LOOK_SECONDS = 0.05
CLOCK_SLACK_SECONDS = 2.0  # psutil derives start times from a boot time that drifts


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process that can be recognised later: pid and start time (Unix seconds)."""

    pid: int
    start_time: float

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """The identity of a running process; None when there is none."""
        try:
            return cls(pid, psutil.Process(pid).create_time())
        except psutil.Error:
            return None

    @classmethod
    def own(cls) -> ProcessIdentity:
        return cls(os.getpid(), psutil.Process().create_time())

    def process(self) -> psutil.Process | None:
        """The live process, None when it ended, is a zombie or the pid was reused."""
        found = self._found()
        try:
            return None if found is None or has_ended(found) else found
        except psutil.Error:
            return None

    def is_alive(self) -> bool:
        return self.process() is not None

    def kill_group(self) -> bool:
        """Kill it and the group it leads; False when its pid is no longer its own.

        A zombie still keeps its pid, and others of its group may live.
        """
        found = self._found()
        if found is None:
            return False
        try:
            if os.getpgid(self.pid) == self.pid:
                os.killpg(self.pid, signal.SIGKILL)
            else:
                found.kill()
        except (ProcessLookupError, PermissionError, psutil.Error):
            return False
        return True

    def _found(self) -> psutil.Process | None:
        try:
            found = psutil.Process(self.pid)
            drift = abs(found.create_time() - self.start_time)
        except psutil.Error:
            return None
        return found if drift <= CLOCK_SLACK_SECONDS else None


def end(
    identities: Sequence[ProcessIdentity],
    *,
    sign: int = signal.SIGTERM,
    grace_seconds: float = 15.0,
) -> None:
    """Ask the processes to end, then kill their groups; returns when all are gone."""
    if not ask(identities, sign=sign, seconds=grace_seconds):
        ask(identities, sign=signal.SIGKILL, seconds=5.0)


def ask(identities: Sequence[ProcessIdentity], *, sign: int, seconds: float) -> bool:
    """Signal the processes and wait; whether all of them ended in time."""
    for one in identities:
        _signal(one, sign)
    return _wait_until(lambda: not any(one.is_alive() for one in identities), seconds)


def _signal(identity: ProcessIdentity, sign: int) -> None:
    if sign == signal.SIGKILL:
        identity.kill_group()
        return
    process = identity.process()
    if process is None:
        return
    try:
        process.send_signal(sign)
    except psutil.Error:
        return


def wait_group_gone(pgid: int, *, seconds: float) -> bool:
    """Whether nothing of the group lives; zombies that no parent reaps count as
    gone."""
    return _wait_until(lambda: not _has_members(pgid), seconds)


def _wait_until(is_so: Callable[[], bool], seconds: float) -> bool:
    """Look again and again, for at most so long; whether it became so."""
    limit = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > limit:
            return False
        time.sleep(LOOK_SECONDS)
    return True


def has_ended(process: psutil.Process) -> bool:
    """Shown as a zombie once its first thread has ended, it goes on while there are
    others: one of a killed JVM may be in the midst of a write."""
    return process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1


def _has_members(pgid: int) -> bool:
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) != pgid:
                continue
            if not has_ended(process):
                return True
        except (ProcessLookupError, psutil.Error):
            continue
    return False


def descendants(identity: ProcessIdentity) -> list[ProcessIdentity]:
    """Every live descendant, so that none is forgotten when a parent ends first."""
    process = identity.process()
    if process is None:
        return []
    try:
        children = process.children(recursive=True)
    except psutil.Error:
        return []
    found = (ProcessIdentity.of(child.pid) for child in children)
    return [one for one in found if one is not None]


def read_identity(path: Path) -> ProcessIdentity | None:
    """The identity in a `*.pid.json` file; None when it is absent or not readable.

    Engines call the start time `born`. Without one the pid may be anybody's by now,
    and the identity is that of no living process.
    """
    try:
        body = json.loads(path.read_text())
        start_time = body.get("start_time", body.get("born", 0.0))
        return ProcessIdentity(int(body["pid"]), float(start_time))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def living_identity(path: Path) -> ProcessIdentity | None:
    """The same, while the process lives."""
    found = read_identity(path)
    return found if found and found.is_alive() else None


def write_identity(path: Path, pid: int, role: str) -> None:
    found = ProcessIdentity.of(pid)
    start_time = found.start_time if found else 0.0
    body = {"pid": pid, "start_time": start_time, "role": role}
    write_private(path, json.dumps(body))
