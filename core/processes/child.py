"""One child process: started so that it cannot outlive us, stopped, then killed.

A child leads a process group, and the group ends with it: the process that sees the end
of a child kills what is left of its group before the kernel may give its pid to
another.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import pwd
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

import psutil

from core.processes.identity import ProcessIdentity

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.02
# How long the kernel may take to end what was killed.
KILL_SECONDS = 5.0
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
# Looked up here: between fork and exec the loader's lock may be another thread's.
_prctl = ctypes.CDLL(None).prctl
# Pids of children whose exit status their `Child` still wants.
_uncollected: set[int] = set()


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """How one child is started, and how it is asked to end.

    inherits      what it gets of our environment: `all`, `path` for servers that are
                  not ours, `nothing` where `environment` is complete
    log           where its errors go, and its output unless it has pipes
    has_pipes     its input and output are ours, unbuffered
    user          the account to run as (root only)
    stop_signal   by which it is asked to end; to the leader alone, or to its group
    death_signal  what it gets when our thread that started it ends, however that ends;
                  None only for what shall outlive us
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    inherits: Literal["all", "path", "nothing"] = "all"
    log: Path | None = None
    has_pipes: bool = False
    user: str | None = None
    directory: Path | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    stops_group: bool = False
    stop_grace_seconds: float = 15.0
    death_signal: signal.Signals | None = signal.SIGTERM


# What a program of ours gets of our environment: no setting of ours, so no secret.
_KEPT = (
    "PATH", "JAVA_HOME", "JDK_JAVA_OPTIONS", "HOME", "USER", "TMPDIR", "LANG",
    "HADOOP_USER_NAME",
)  # fmt: skip


def java_environment() -> dict[str, str]:
    """Complete, for `inherits="nothing"`."""
    kept = {key: os.environ[key] for key in _KEPT if key in os.environ}
    return kept | {"LC_ALL": "C.UTF-8"}


def python_environment(root: Path) -> dict[str, str]:
    """Complete, for `inherits="nothing"`. root: where our packages are."""
    return java_environment() | {
        "PYTHONPATH": str(root),
        # the folder in which it is started hides no module
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
    }


class Child:
    """A process that we started. Safe to use from several threads.

    Its pid is no other process's before its end was seen here, so what is sent
    through this object never reaches a stranger.
    """

    def __init__(self, spec: ChildSpec, process: subprocess.Popen[bytes]) -> None:
        self.spec = spec
        self.pid = process.pid
        self.identity = ProcessIdentity.of(process.pid) or ProcessIdentity(self.pid, 0)
        self._process = process
        self._lock = threading.Lock()
        _uncollected.add(process.pid)

    @property
    def stdin(self) -> IO[bytes]:
        """Where it reads from; only with `has_pipes`."""
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def stdout(self) -> IO[bytes]:
        """What it writes to; only with `has_pipes`."""
        assert self._process.stdout is not None
        return self._process.stdout

    def poll(self) -> int | None:
        """Return the exit code, negative for the signal that ended it; None while it
        runs."""
        with self._lock:
            if self._process.returncode is None:
                self._collect()
            return self._process.returncode

    def wait(self, seconds: float | None = None) -> int | None:
        """Return the exit code, None when it still runs after so many seconds."""
        if seconds is None:
            self._await_end()
            return self.poll()
        limit = time.monotonic() + seconds
        while (code := self.poll()) is None and time.monotonic() < limit:
            time.sleep(LOOK_SECONDS)
        return code

    def ask(self) -> None:
        """Ask it to end by its stop signal; nothing happens when it has ended."""
        with self._lock:
            if self._process.returncode is not None:
                return
            if self.spec.stops_group:
                self._signal_group(self.spec.stop_signal)
                return
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, self.spec.stop_signal)

    def kill(self) -> None:
        """End its whole group at once; nothing happens when it has ended."""
        with self._lock:
            if self._process.returncode is None:
                self._signal_group(signal.SIGKILL)

    def let_go(self) -> ProcessIdentity:
        """Leave it to itself, known by what is returned; this object is over."""
        self._process.returncode = 0  # Popen warns of a child without a waiter
        return self.identity

    def _collect(self) -> None:
        """When it has ended: kill its group while its pid is its own, then give the
        pid back. One that was collected by another hand has no pid any more."""
        with contextlib.suppress(ChildProcessError):
            flags = os.WEXITED | os.WNOWAIT | os.WNOHANG
            if os.waitid(os.P_PID, self.pid, flags) is None:
                return
            self._signal_group(signal.SIGKILL)
        self._process.wait()
        _uncollected.discard(self.pid)

    def _await_end(self) -> None:
        """Without collecting it: its group has to be killed before."""
        if self._process.returncode is not None:
            return
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    def _signal_group(self, sign: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, sign)


def spawn(spec: ChildSpec) -> Child:
    """Start the child in its own session and process group; what it makes is its
    user's alone, unless it says otherwise.

    The thread that calls this must live as long as the child: the kernel takes its
    end for ours.
    """
    account = pwd.getpwnam(spec.user) if spec.user else None
    output = _open_log(spec.log)
    pipe = subprocess.PIPE if spec.has_pipes else None
    try:
        process = subprocess.Popen(
            list(spec.command),
            bufsize=0,
            env=_environment(spec),
            stdin=pipe or subprocess.DEVNULL,
            stdout=pipe or output,
            stderr=output,
            cwd=spec.directory,
            start_new_session=True,
            umask=0o077,
            preexec_fn=_die_with(os.getpid(), spec.death_signal),
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
        )
    finally:
        if output != subprocess.DEVNULL:
            os.close(output)
    return Child(spec, process)


def stop_all(children: Sequence[Child], *, grace_seconds: float | None = None) -> None:
    """Ask all to end, then kill the groups of those that do not.

    They are asked at once, so the longest grace counts; `grace_seconds` is in place of
    that of their specs.
    """
    for child in children:
        child.ask()
    asked = time.monotonic()
    for child in children:
        own = child.spec.stop_grace_seconds
        grace = own if grace_seconds is None else grace_seconds
        if child.wait(asked + grace - time.monotonic()) is None:
            _force(child)


def _force(child: Child) -> None:
    log.warning("%s (%s) does not end, killing it", child.spec.name, child.pid)
    child.kill()
    if child.wait(KILL_SECONDS) is None:
        log.error("%s (%s) survived being killed", child.spec.name, child.pid)


def _environment(spec: ChildSpec) -> dict[str, str]:
    if spec.inherits == "nothing":
        return dict(spec.environment)
    inherited = {"PATH": os.environ.get("PATH", os.defpath)}
    if spec.inherits == "all":
        inherited = dict(os.environ)
    return {**inherited, "LC_ALL": "C.UTF-8", "TZ": "UTC", **spec.environment}


def _open_log(path: Path | None) -> int:
    if path is None:
        return subprocess.DEVNULL
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def _die_with(parent: int, sign: signal.Signals | None) -> Callable[[], None] | None:
    """What runs in the child after the change of user, which would clear the setting,
    and before its program."""
    if sign is None:
        return None

    def arrange() -> None:
        _prctl(PR_SET_PDEATHSIG, int(sign), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return arrange


def adopt_orphans() -> None:
    """Make orphaned grandchildren ours, for containers whose PID 1 does not reap."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap() -> None:
    """Collect ended orphans that were re-parented to us, never a `Child`."""
    for pid in _child_pids():
        try:
            if pid in _uncollected:
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
