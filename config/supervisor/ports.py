"""Which TCP ports to listen on: a taken default moves on, a taken port that was asked
for is an error."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

from core.errors import TerminalError

TRIES = 200


def is_free(port: int) -> bool:
    """Whether a listener could bind now. Connections in TIME_WAIT do not count."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """Any free port, chosen by the system."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def kept_port(file: Path) -> int:
    """The port in that file while it is free, else any that is; written there."""
    port = int(file.read_text()) if file.exists() else 0
    if not port or not is_free(port):
        port = free_port()
    file.write_text(f"{port}")
    return port


@dataclass(frozen=True, slots=True)
class Claim:
    """A port that no other Sluice chooses as long as `mark` is open: between the look
    and the server that listens lie seconds, in which another one would find it free."""

    port: int
    mark: socket.socket


def choose(
    *, explicit: int | None, default: int, what: str, before: int | None = None
) -> Claim:
    """The explicit port or TerminalError; else the one of `before`, if it is free; else
    the next free one from the default."""
    if explicit is not None:
        if claim := _claimed(explicit):
            return claim
        raise TerminalError(
            f"port {explicit} for {what} is taken",
            code="port_taken",
            hint="choose another port or end the program that listens there",
            facts={"port": explicit, "what": what},
        )
    if before is not None and (claim := _claimed(before)):
        return claim
    for port in range(default, default + TRIES):
        if claim := _claimed(port):
            return claim
    raise TerminalError(
        f"no free port for {what} in {default} to {default + TRIES - 1}",
        code="port_taken",
        hint="name a free port yourself",
    )


def _claimed(port: int) -> Claim | None:
    """None when another process listens there, or another Sluice has chosen it."""
    mark = socket.socket(socket.AF_UNIX)
    try:
        # an abstract name: unique where the port is, whichever users run them, and gone
        # with the process; no file stays behind or has to be trusted
        mark.bind(f"\0sluice-port-{port}")
        if is_free(port):
            return Claim(port, mark)
    except OSError:  # another one has the name
        pass
    mark.close()
    return None
