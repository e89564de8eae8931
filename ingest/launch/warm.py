"""The warm driver and its one-shot brothers as child processes with pipes.

No process outlives its host: each child leads its own process group, dies with the
host (PDEATHSIG and end of its stdin), and what an earlier host left behind is found
by the pid file and killed before anything starts. Knows nothing of rows.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import queue
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import psutil

from ingest.contract import JobSpec, SecretAnswer, encode
from ingest.launch.launcher import CancelMode, Message

log = logging.getLogger(__name__)

MARK = "SLUICE_DRIVER_BOOT"
STOP_SECONDS = 8.0
KINDS = frozenset({"ready", "accepted", "secret_request", "heartbeat", "log", "report"})
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def _die_with_parent() -> None:
    """Runs in the child between fork and exec."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class DriverCommand:
    """How to start a driver. `environment` is complete: nothing is inherited.

    scratch  where each process gets a folder (`--scratch`) that goes when it ends: a
             killed JVM leaves spilled blocks and unpacked libraries
    """

    program: Sequence[str]
    environment: Mapping[str, str]
    log_file: Path
    pid_file: Path
    scratch: Path
    silence_seconds: float = 15.0


@dataclass(slots=True)
class _Child:
    process: subprocess.Popen[bytes]
    origin: str
    log: IO[bytes]
    scratch: Path
    lines: queue.SimpleQueue[Message]
    reader: threading.Thread = field(init=False)
    waiter: threading.Thread = field(init=False)
    write_lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        name = f"driver-{self.origin or 'warm'}"
        self.reader = threading.Thread(target=self._read, name=name, daemon=True)
        self.waiter = threading.Thread(target=self._wait, name=name, daemon=True)
        self.reader.start()
        self.waiter.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if message := parse_line(line, self.origin):
                self.lines.put(message)

    def _wait(self) -> None:
        """Says `died` once nothing of the group can write any more. What the driver
        had started may hold its end of the pipe, so the end of the pipe says little.
        """
        code = self.process.wait()
        kill_group(self.process.pid)
        wait_group(self.process.pid, seconds=10)
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.reader.join(timeout=5)
        self.lines.put(Message("died", {"code": code}, self.origin))

    def send(self, data: Mapping[str, Any]) -> None:
        line = json.dumps(data, ensure_ascii=False).encode() + b"\n"
        try:
            with self.write_lock:
                assert self.process.stdin is not None
                self.process.stdin.write(line)
                self.process.stdin.flush()
        except (OSError, ValueError):
            log.debug("driver %s does not listen any more", self.process.pid)

    def close(self) -> None:
        self.waiter.join(timeout=20)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    continue
        self.log.close()


class WarmLauncher:
    """See `Launcher`. Call it from one thread; that one must live as long as it."""

    def __init__(self, command: DriverCommand) -> None:
        self._command = command
        self._lines: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._children: dict[str, _Child] = {}
        self._boot = ""

    @property
    def is_running(self) -> bool:
        return "" in self._children

    @property
    def pid(self) -> int | None:
        child = self._children.get("")
        return child.process.pid if child else None

    def start(self, boot: str) -> None:
        self._boot = boot
        self._spawn("", ["--warm"])

    def submit(self, spec: JobSpec, *, isolated: bool) -> None:
        origin = spec.job_id if isolated else ""
        if isolated and origin not in self._children:
            self._spawn(origin, ["--once"])
        self._send(origin, {"type": "run", "spec": json.loads(encode(spec))})

    def cancel(self, job_id: str, mode: CancelMode) -> None:
        origin = job_id if job_id in self._children else ""
        self._send(origin, {"type": "cancel", "job_id": job_id, "mode": mode})

    def give_secret(self, answer: SecretAnswer, *, origin: str) -> None:
        self._send(origin, {"type": "secret", **json.loads(encode(answer))})

    def ping(self) -> None:
        for child in self._children.values():
            child.send({"type": "ping", "at": time.time()})

    def poll(self, seconds: float) -> list[Message]:
        found: list[Message] = []
        try:
            found.append(self._lines.get(timeout=seconds))
            while True:
                found.append(self._lines.get_nowait())
        except queue.Empty:
            pass
        for message in found:
            if message.kind == "died":
                self._forget(message.origin)
        return found

    def kill(self, origin: str = "") -> None:
        if child := self._children.get(origin):
            kill_group(child.process.pid)

    def stop(self) -> None:
        children = list(self._children.values())
        for child in children:
            child.send({"type": "stop"})
        until = time.monotonic() + STOP_SECONDS
        for child in children:
            try:
                child.process.wait(timeout=max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                log.warning("driver %s did not stop, killing it", child.process.pid)
            kill_group(child.process.pid)
            child.close()
        self._children.clear()
        self._command.pid_file.unlink(missing_ok=True)

    def _spawn(self, origin: str, arguments: list[str]) -> None:
        command = self._command
        command.log_file.parent.mkdir(parents=True, exist_ok=True)
        scratch = command.scratch / (origin or "warm")
        scratch.mkdir(parents=True, exist_ok=True)
        out = command.log_file.open("ab")
        process = subprocess.Popen(
            [*command.program, *arguments, "--scratch", str(scratch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=out,
            env={**command.environment, MARK: self._boot},
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
        self._children[origin] = _Child(process, origin, out, scratch, self._lines)
        self._write_pid_file()
        silence = command.silence_seconds
        self._children[origin].send({"type": "hello", "silence_seconds": silence})

    def _send(self, origin: str, data: Mapping[str, Any]) -> None:
        if child := self._children.get(origin):
            child.send(data)

    def _forget(self, origin: str) -> None:
        if child := self._children.pop(origin, None):
            child.close()
            self._write_pid_file()

    def _write_pid_file(self) -> None:
        path = self._command.pid_file
        path.parent.mkdir(parents=True, exist_ok=True)
        pids = [
            {"pid": c.process.pid, "started": _started(c.process.pid), "job": origin}
            for origin, c in self._children.items()
        ]
        text = json.dumps({"pid": self.pid, "boot": self._boot, "children": pids})
        scratch = path.with_suffix(".tmp")
        scratch.write_text(text)
        scratch.replace(path)


def parse_line(line: bytes, origin: str) -> Message | None:
    """A message, or None for noise that some library printed."""
    try:
        data = json.loads(line)
        kind = data.pop("type")
    except (ValueError, AttributeError, KeyError, TypeError):
        return None
    return Message(kind, data, origin) if kind in KINDS else None


# ---------------------------------------------------------------- process groups


def kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def wait_group(pgid: int, *, seconds: float) -> bool:
    """Whether the whole group is gone; zombies that nobody reaps count as gone."""
    until = time.monotonic() + seconds
    while _has_members(pgid):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


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


def kill_leftovers(pid_file: Path) -> list[int]:
    """End what an earlier host left: recorded pid, same start time, our mark."""
    try:
        recorded = json.loads(pid_file.read_text())
    except (OSError, ValueError):
        return []
    killed = []
    boot = recorded.get("boot", "")
    for child in recorded.get("children", []):
        if _is_ours(child["pid"], child["started"], boot):
            kill_group(child["pid"])
            wait_group(child["pid"], seconds=10)
            killed.append(child["pid"])
    killed += _kill_marked(boot)
    pid_file.unlink(missing_ok=True)
    return killed


def _kill_marked(boot: str) -> list[int]:
    """Members of the boot whose leader died first: they still carry its mark."""
    if not boot:
        return []
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == boot and process.pid != os.getpid():
                process.kill()
                found.append(process.pid)
        except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
            continue
    return found


def _is_ours(pid: int, started: float, boot: str) -> bool:
    try:
        process = psutil.Process(pid)
        is_same = abs(process.create_time() - started) < 1.0
        return is_same and process.environ().get(MARK) == boot
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def _started(pid: int) -> float:
    try:
        return psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return 0.0
