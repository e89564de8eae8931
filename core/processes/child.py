"""One child process: start it so that it cannot outlive us, and collect its end."""

from __future__ import annotations

import ctypes
import os
import pwd
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
_libc = ctypes.CDLL(None, use_errno=True)
_spawned: set[int] = set()


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
