"""Followers without their imports, which take longer than most that a test does with
one: each is forked from a process that has them.

It is a child of who asked for it, in a session of its own, with pipes and a log, as
`core.processes.child.spawn` makes one. `tests/integration/ingest/test_followers.py` has
those that a host starts.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from io import FileIO

from core.processes.child import PR_SET_CHILD_SUBREAPER, Child, ChildSpec

_MOST_BYTES = 1 << 16
_prctl = ctypes.CDLL(None).prctl


@dataclass
class Forked:
    """As much of `subprocess.Popen` as a `Child` asks for."""

    pid: int
    stdin: FileIO
    stdout: FileIO
    returncode: int | None = None

    def wait(self) -> int:
        if self.returncode is None:
            _, status = os.waitpid(self.pid, 0)
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def fork_follower(spec: ChildSpec) -> Child:
    """In place of `spawn`, whatever the program of `spec`."""
    assert spec.log is not None
    spec.log.parent.mkdir(parents=True, exist_ok=True)
    read_end, stdin = os.pipe()
    stdout, write_end = os.pipe()
    log = os.open(spec.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    theirs = (read_end, write_end, log)
    origin = _origin()
    _prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        told = json.dumps(dict(spec.environment)).encode()
        socket.send_fds(origin, [told], theirs)
        pid = int(origin.recv(_MOST_BYTES))
        assert origin.recv(_MOST_BYTES) == b"ours"
    finally:
        _prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        for one in theirs:
            os.close(one)
    return Child(spec, Forked(pid, FileIO(stdin, "wb"), FileIO(stdout, "rb")))


@functools.cache
def _origin() -> socket.socket:
    """A connection to the process with the imports; it ends with ours."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        process.returncode = 0  # Popen warns of a child without a waiter
    return ours


def main() -> None:
    from ingest.follower.__main__ import main as follow

    link = socket.socket(fileno=int(sys.argv[1]))
    gc.freeze()
    while True:
        told, theirs, _, _ = socket.recv_fds(link, _MOST_BYTES, 3)
        if not told:
            return
        between = os.fork()
        if not between:
            # who asked adopts it when its parent is gone
            pid = os.fork()
            if pid:
                link.send(str(pid).encode())
                os._exit(0)
            link.close()
            _become(json.loads(told), theirs)
            _run(follow)
        os.waitpid(between, 0)
        link.send(b"ours")
        for one in theirs:
            os.close(one)


def _become(environment: Mapping[str, str], streams: list[int]) -> None:
    os.setsid()
    os.umask(0o077)
    os.environ.clear()
    os.environ.update(environment)
    for number, one in enumerate(streams):
        os.dup2(one, number)
        os.close(one)


def _run(follow: object) -> None:
    code = 1
    try:
        code = follow()  # type: ignore[operator]
    except BaseException:  # noqa: BLE001  nothing of the origin's may run here
        traceback.print_exc()
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main()
