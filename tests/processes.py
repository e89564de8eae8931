"""Processes as a test looks at them, any of which may end while it looks.

psutil raises ZombieProcess (a NoSuchProcess) for the arguments of a process that
ended and that its parent has not waited for yet.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import psutil

from core.processes.identity import has_ended
from tests.waiting import wait_for


def line_of(process: psutil.Process) -> str:
    """Its command line; empty when it ended meanwhile."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def is_alive(process: psutil.Process) -> bool:
    """Whether it runs: neither gone nor a zombie. One whose first thread has ended is
    shown as a zombie while other threads still end; its parent does not see it ended."""
    try:
        return process.is_running() and not has_ended(process)
    except psutil.NoSuchProcess:
        return False


def family(pid: int | None) -> list[psutil.Process]:
    """The process, first, and everything alive below it; empty when it is gone."""
    if pid is None:  # to psutil this would be the test itself
        return []
    try:
        leader = psutil.Process(pid)
        below = leader.children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [one for one in (leader, *below) if is_alive(one)]


def kill(processes: Sequence[psutil.Process]) -> None:
    """At once, each that has not ended by itself."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def wait_until_gone(processes: Sequence[psutil.Process]) -> None:
    """A zombie is gone: the pid 1 that inherits it may never wait for it."""

    def left() -> list[psutil.Process]:
        return [one for one in processes if is_alive(one)]

    wait_for(lambda: not left(), lambda: f"the end of {left()}")


def of_home(home: Path) -> list[psutil.Process]:
    """Every process of the product that runs from `home`."""
    found = []
    for process in psutil.process_iter():
        try:
            environment = process.environ()
        except psutil.Error:
            continue
        is_ours = environment.get("SLUICE_HOME") == str(home)
        if is_ours or str(home) in line_of(process):
            found.append(process)
    return found
