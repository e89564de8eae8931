"""Process groups and marks: how what we started is found again and surely ended.

Each driver leads a process group of its own and carries a mark in its environment,
which everything it starts inherits. Knows nothing of jobs or messages.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator

import psutil

MARK = "SLUICE_DRIVER_BOOT"


def kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def wait_group(pgid: int, *, seconds: float) -> bool:
    """Whether the whole group is gone; zombies that nobody reaps count as gone."""
    return _wait_until(lambda: not _has_members(pgid), seconds)


def marked(mark: str) -> list[int]:
    """Living processes with this mark, ourselves excepted."""
    return [process.pid for process in _marked(mark)]


def has_leader(mark: str) -> bool:
    """Whether the process that all others of the mark came from still lives."""
    return any(_leads(pid) for pid in marked(mark))


def _leads(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False


def kill_marked(mark: str) -> list[int]:
    """End all of them at once; the pids."""
    found = []
    for process in _marked(mark):
        try:
            process.kill()
            found.append(process.pid)
        except psutil.NoSuchProcess:
            continue
    return found


def wait_marked(mark: str, *, seconds: float) -> bool:
    """Whether nothing with this mark lives any more."""
    return _wait_until(lambda: not marked(mark), seconds)


def started_at(pid: int) -> float:
    """Seconds since 1970; 0 when there is no such process."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return 0.0


def is_same(pid: int, started: float, mark: str) -> bool:
    """Whether this pid is still the process that was recorded, and one of ours."""
    try:
        process = psutil.Process(pid)
        is_it = abs(process.create_time() - started) < 1.0
        return is_it and process.environ().get(MARK) == mark
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def _marked(mark: str) -> Iterator[psutil.Process]:
    if not mark:
        return
    for process in psutil.process_iter():
        try:
            if process.pid == os.getpid() or process.environ().get(MARK) != mark:
                continue
            if process.status() != psutil.STATUS_ZOMBIE:
                yield process
        except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
            continue


def _has_members(pgid: int) -> bool:
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) != pgid:
                continue
            if process.status() != psutil.STATUS_ZOMBIE:
                return True
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return False


def _wait_until(is_so: Callable[[], bool], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True
