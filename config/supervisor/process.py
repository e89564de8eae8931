"""One child process: start it so that it cannot outlive us, know it again, end it.

A process is its pid and its start time, because pids are used again. Everything is
read through psutil, so it works in a container without `ps`.
"""

from __future__ import annotations

import ctypes
import json
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

CLOCK_SLACK_SECONDS = 2.0  # psutil derives start times from a boot time that drifts
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
_libc = ctypes.CDLL(None, use_errno=True)
_spawned: set[int] = set()


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


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """How one child is started.

    user          the account to run as (root only)
    is_bare       it gets none of our environment: for servers that are not ours
    dies_with_us  off only for what shall outlive the caller
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    log: Path | None = None
    user: str | None = None
    directory: Path | None = None
    stop_signal: int = signal.SIGTERM
    stop_grace_seconds: float = 15.0
    is_bare: bool = False
    dies_with_us: bool = True


def spawn(spec: ChildSpec) -> subprocess.Popen[bytes]:
    """Start the child in its own process group; it gets SIGTERM when we die."""
    output = _open_log(spec.log)
    account = pwd.getpwnam(spec.user) if spec.user else None
    try:
        process = subprocess.Popen(
            list(spec.command),
            env=_environment(spec),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=spec.directory,
            start_new_session=True,
            preexec_fn=_die_with(os.getpid(), spec.stop_signal)
            if spec.dies_with_us
            else None,
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
        )
        _spawned.add(process.pid)
        return process
    finally:
        if output != subprocess.DEVNULL:
            os.close(output)


def _environment(spec: ChildSpec) -> dict[str, str]:
    inherited = {"PATH": os.environ.get("PATH", os.defpath)}
    if not spec.is_bare:
        inherited = dict(os.environ)
    return {**inherited, "LC_ALL": "C.UTF-8", "TZ": "UTC", **spec.environment}


def _open_log(path: Path | None) -> int:
    if path is None:
        return subprocess.DEVNULL
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def _die_with(parent: int, sign: int) -> Callable[[], None]:
    """Runs in the child after the change of user, which would clear the setting."""

    def arrange() -> None:
        _libc.prctl(PR_SET_PDEATHSIG, sign, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return arrange


def adopt_orphans() -> None:
    """Make orphaned grandchildren ours, for containers whose PID 1 does not reap."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


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


def reap() -> None:
    """Collect ended orphans that were re-parented to us, never a Popen's own child."""
    for pid in _child_pids():
        try:
            if pid in _spawned:  # its Popen wants the exit status
                continue
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                os.waitpid(pid, os.WNOHANG)
        except (psutil.Error, ChildProcessError, ProcessLookupError):
            continue


def _child_pids() -> list[int]:
    """Cheap where the kernel tells it; a walk over all processes elsewhere."""
    own = os.getpid()
    try:
        text = Path(f"/proc/{own}/task/{own}/children").read_text()
    except OSError:
        return [child.pid for child in psutil.Process().children()]
    return [int(word) for word in text.split()]


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


def write_private(path: Path, text: str) -> None:
    """Replace a 0600 file atomically: a reader sees the old or the new one, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    scratch.replace(path)


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
