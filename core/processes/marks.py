"""Marks: a variable in the environment by which a process and all it starts are found.

A mark outlives parents, groups and pid files: what was started with it carries it on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from core.processes.identity import has_ended


@dataclass(frozen=True, slots=True)
class Mark:
    """One value of one variable; an empty value marks nothing."""

    variable: str
    value: str

    def processes(self) -> Iterator[psutil.Process]:
        """Yield the living processes with this mark, ourselves excepted."""
        if not self.value:
            return
        for process in psutil.process_iter():
            try:
                if process.pid == os.getpid() or not self.is_on(process):
                    continue
                if not has_ended(process):
                    yield process
            except psutil.Error:
                continue

    def is_on(self, process: psutil.Process) -> bool:
        """Whether the process carries it; False when that cannot be seen."""
        return os.fsencode(f"{self.variable}={self.value}") in _environment(process.pid)

    def pids(self) -> list[int]:
        return [process.pid for process in self.processes()]

    def kill(self) -> list[int]:
        """Kill all of them at once; return their pids."""
        found = []
        for process in self.processes():
            try:
                process.kill()
                found.append(process.pid)
            except psutil.NoSuchProcess:
                continue
        return found


def _environment(pid: int) -> list[bytes]:
    """`NAME=value` each, as it was started. A first thread that has ended has none any
    more, while the others of its process may be in the midst of a write."""
    found = _read(pid, pid)
    if found is None:
        return []
    return (found or _of_another_thread(pid)).split(b"\0")


def _of_another_thread(pid: int) -> bytes:
    try:
        threads = [int(one.name) for one in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:  # it has just gone
        return b""
    return next(filter(None, (_read(pid, one) for one in threads)), b"")


def _read(pid: int, thread: int) -> bytes | None:
    """What a thread was started with, b"" when it has ended; None = not ours to see."""
    try:
        return Path(f"/proc/{pid}/task/{thread}/environ").read_bytes()
    except PermissionError:
        return None
    except OSError:
        return b""
