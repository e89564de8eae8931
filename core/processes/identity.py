"""A process is its pid and its start time, because pids are used again.

Everything is read through psutil, so it works in a container without `ps`.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from core.files import write_private
from core.processes.child import reap

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

    def process(self) -> psutil.Process | None:
        """The live process, None when it ended, is a zombie or the pid was reused."""
        try:
            found = psutil.Process(self.pid)
            if abs(found.create_time() - self.start_time) > CLOCK_SLACK_SECONDS:
                return None
            return None if found.status() == psutil.STATUS_ZOMBIE else found
        except psutil.Error:
            return None

    def is_alive(self) -> bool:
        return self.process() is not None


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
    return _wait_gone(identities, seconds)


def _signal(identity: ProcessIdentity, sign: int) -> None:
    process = identity.process()
    if process is None:
        return
    try:
        if os.getpgid(identity.pid) == identity.pid and sign == signal.SIGKILL:
            os.killpg(identity.pid, sign)
        else:
            process.send_signal(sign)
    except (ProcessLookupError, PermissionError, psutil.Error):
        return


def _wait_gone(identities: Sequence[ProcessIdentity], seconds: float) -> bool:
    limit = time.monotonic() + seconds
    while any(one.is_alive() for one in identities):
        if time.monotonic() > limit:
            return False
        reap()
        time.sleep(0.05)
    return True


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
    """The identity in a `*.pid.json` file; None when it is absent or not readable."""
    try:
        body = json.loads(path.read_text())
        return ProcessIdentity(int(body["pid"]), _start_time(body))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _start_time(body: dict[str, float]) -> float:
    """As the file says; engines call it `born`; a file without it names a live pid."""
    for name in ("start_time", "born"):
        if name in body:
            return float(body[name])
    found = ProcessIdentity.of(int(body["pid"]))
    return found.start_time if found else 0.0


def write_identity(path: Path, pid: int, role: str) -> None:
    found = ProcessIdentity.of(pid)
    start_time = found.start_time if found else 0.0
    body = {"pid": pid, "start_time": start_time, "role": role}
    write_private(path, json.dumps(body))
