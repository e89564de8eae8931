"""Starts the stack of one home, restarts what crashes, ends everything it started.

It adopts orphans, so that no process of ours escapes when its parent dies first.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

from config.supervisor.home import Home, make_keys
from config.supervisor.stack import (
    Options,
    Role,
    Stack,
    choose_ports,
    has_certificate,
    servers_of,
    web_address,
)
from config.toolchain.javac import ensure_sluice_jar
from config.toolchain.paths import extras_of, jar_paths
from core.errors import TerminalError
from core.files import write_private
from core.processes.child import Child, ChildSpec, adopt_orphans, reap, spawn, stop_all
from core.processes.identity import (
    ProcessIdentity,
    descendants,
    end,
    living_identity,
    write_identity,
)
from core.retries import Backoff

# ------------------------------------------------------------------- connection.json


def connection_of(stack: Stack, pids: Mapping[str, int | None]) -> dict[str, object]:
    """The content, from what is running now. `pids`: by role, of our own children."""
    login = json.loads(stack.home.administrator_file.read_text())
    host, port = stack.gateway_host, stack.ports.gateway
    tls = ";ssl=true" if has_certificate() else ""
    return {
        "web_url": stack.web_url,
        "username": login["username"],
        "password": login["password"],
        "token": login["token"],
        "gateway": {
            "host": host.strip("[]"),
            "port": port,
            "http_port": stack.ports.gateway_http,
        },
        "jdbc_url": f"jdbc:hive2://{host}:{port}/default{tls}",
        "demo_source": demo_source(stack),
        "pids": {**pids, **reported_pids(stack.home)},
        "lake": _lake(stack),
    }


def demo_source(stack: Stack) -> dict[str, object] | None:
    """How to reach the demo shop, as a user who is not the server's superuser."""
    path = stack.home.keys / "demo_source.json"
    if stack.servers.demo is None or not path.exists():
        return None
    body: dict[str, object] = json.loads(path.read_text())
    return {**body, "port": stack.servers.demo.address.port}


def reported_pids(home: Home) -> dict[str, object]:
    """Processes that our children start and report: the Spark driver, engines, and
    those that follow logs."""
    return {
        "driver": _live_pid(home.run / "driver.pid.json"),
        "engines": _live_pids(home, "engine-*.pid.json"),
        "captures": _live_pids(home, "follower-*.pid.json"),
    }


def _live_pids(home: Home, pattern: str) -> list[int]:
    found = (_live_pid(path) for path in sorted(home.run.glob(pattern)))
    return [pid for pid in found if pid is not None]


def _live_pid(path: Path) -> int | None:
    identity = living_identity(path)
    return identity.pid if identity else None


def _lake(stack: Stack) -> str:
    named = os.environ.get("SLUICE_LAKE_URI")
    return (named or str(stack.home.path / "lake")).removeprefix("file://")


# A process that was killed is in the file for so long, where nobody says that it ended.
ALIVE_SECONDS = 3.0


class ConnectionFile:
    """Rewrites the file only when its content changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = ""
        self._signs: tuple[object, ...] = ()
        self._made = float("-inf")

    def is_due(self, pids: Mapping[str, int | None], home: Home, now: float) -> bool:
        """Whether its content may be another one: it is looked at twice a second, and
        takes a millisecond. Files of a home are replaced, which its folders show."""
        folders = [one.stat().st_mtime_ns for one in (home.run, home.keys)]
        signs = ({**pids}, folders)
        if signs == self._signs and now - self._made < ALIVE_SECONDS:
            return False
        self._signs, self._made = signs, now
        return True

    def write(self, content: dict[str, object]) -> None:
        text = json.dumps(content, indent=2)
        if text != self._written:
            write_private(self._path, text)
            self._written = text


# ------------------------------------------------------------------------------ logs

# They stay small, whoever makes the processes write: anybody who can reach the web
# process does, by each request.

MOST_BYTES: Final = 64 * 2**20
# Each engine has a log of its own.
ENGINES_KEPT: Final = 50


def bound_logs(folder: Path) -> None:
    """Begin large logs anew, with what was in them beside as `.log.1`; of engines the
    newest logs stay. Their processes append, so they go on at the new beginning."""
    for path in folder.glob("*.log"):
        if path.stat().st_size > MOST_BYTES:
            shutil.copy(path, path.with_suffix(".log.1"))
            os.truncate(path, 0)
    engines = sorted(folder.glob("engine-*.log*"), key=lambda one: one.stat().st_mtime)
    for path in engines[:-ENGINES_KEPT]:
        path.unlink(missing_ok=True)


log = logging.getLogger(__name__)

LOOP_SECONDS = 0.5
READY_SECONDS = 180.0
PREPARE_SECONDS = 300.0
_PAUSES = Backoff(0.5, 30.0)  # before a restart
STEADY_SECONDS = 60.0
LOGS_SECONDS = 10.0


@dataclass(slots=True)
class RunningRole:
    """A role while it runs, and how often it crashed lately."""

    role: Role
    process: Child
    started: float
    crashes: int = 0
    due: float = 0.0  # monotonic time of the next start, 0 while it runs


@dataclass(slots=True)
class Supervisor:
    """One run of one home. `run` returns when it was told to stop."""

    options: Options
    children: dict[str, RunningRole] = field(default_factory=dict)
    is_stopping: bool = False
    logs_due: float = 0.0

    def run(self) -> None:
        """Blocks. TerminalError when the start is impossible; all is ended then too."""
        web_address()  # refuses before anything is begun
        make_keys(self.options.home)
        lock = self._lock()
        adopt_orphans()
        for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(sign, self._on_signal)
        stack = Stack(
            self.options,
            servers_of(self.options),
            choose_ports(self.options),
            jars=_class_path(),
        )
        home = stack.home
        write_identity(home.supervisor_file, os.getpid(), "supervisor")
        file = ConnectionFile(home.connection_file)
        try:
            self._start_all(stack)
            while not self.is_stopping:
                self._look_after()
                pids = self.pids()
                if file.is_due(pids, home, time.monotonic()):
                    file.write(connection_of(stack, pids))
                self._bound_logs(home.logs)
                time.sleep(LOOP_SECONDS)
        finally:
            self.stop()
            home.connection_file.unlink(missing_ok=True)
            for path in [*home.run.glob("*.pid.json"), *home.run.glob("*.lock")]:
                path.unlink(missing_ok=True)
            os.close(lock)

    def _bound_logs(self, folder: Path) -> None:
        if time.monotonic() < self.logs_due:
            return
        self.logs_due = time.monotonic() + LOGS_SECONDS
        try:
            bound_logs(folder)
        except OSError as error:  # a full disk, too: no reason to end anything
            log.warning("logs could not be cut: %s", error)

    def pids(self) -> dict[str, int | None]:
        """Of our own children, None while one waits for its restart."""
        own = {
            name: None if child.due else child.process.pid
            for name, child in self.children.items()
        }
        own["driver_host"] = own.pop("driver", None)
        return {"supervisor": os.getpid(), **own}

    def _lock(self) -> int:
        path = self.options.home / "run" / "supervisor.lock"
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise TerminalError(
                f"Sluice runs already from {self.options.home}",
                code="already_running",
                hint="end it with `make stop` or choose another --home",
            ) from error
        return handle

    def _on_signal(self, sign: int, frame: FrameType | None) -> None:
        self.is_stopping = True

    def _start_all(self, stack: Stack) -> None:
        for role in stack.servers.roles():
            self._start(role)
        servers = stack.servers
        for server in (servers.metadata, servers.redis, servers.demo):
            if server is not None:
                server.wait_ready()
        stack.write_server_addresses()
        self._prepare(stack.prepare_command())
        for role in stack.roles():
            if self.is_stopping:
                return
            self._start(role)
        self._wait_for_web(stack)

    def _prepare(self, spec: ChildSpec) -> None:
        process = spawn(spec)
        limit = time.monotonic() + PREPARE_SECONDS
        while process.poll() is None and not self.is_stopping:
            if time.monotonic() > limit:
                break
            time.sleep(0.05)
        if process.poll() != 0 and not self.is_stopping:
            tail = spec.log.read_text()[-800:] if spec.log else ""
            raise TerminalError(
                "the metadata database could not be prepared",
                code="prepare_failed",
                hint=f"see {spec.log}",
                facts={"log": tail},
            )

    def _start(self, role: Role) -> None:
        spec = role.make()
        earlier = self.children.get(role.name)
        self.children[role.name] = RunningRole(
            role=role,
            process=spawn(spec),
            started=time.monotonic(),
            crashes=earlier.crashes if earlier else 0,
        )
        pid = self.children[role.name].process.pid
        # the driver host itself reports the Spark driver as driver.pid.json
        name = "driver_host" if role.name == "driver" else spec.name
        write_identity(self.options.home / "run" / f"{name}.pid.json", pid, name)
        log.info("started %s", role.name, extra={"role": role.name, "pid": pid})

    def _wait_for_web(self, stack: Stack) -> None:
        url = f"{stack.web_url}/health/live"
        # the gateway opens this port as its last one
        gateway = (stack.gateway_host.strip("[]"), stack.ports.gateway_http)
        limit = time.monotonic() + READY_SECONDS
        while not self.is_stopping:
            self._look_after()
            if _answers(url) and _listens(gateway):
                return
            if time.monotonic() > limit:
                raise TerminalError(
                    "web or gateway do not answer",
                    code="not_started",
                    hint=f"see web.log and gateway.log in {stack.home.logs}",
                )
            time.sleep(LOOP_SECONDS)

    def _look_after(self) -> None:
        """Restart what ended, later each time; reap what was left to us."""
        now = time.monotonic()
        for child in list(self.children.values()):
            if child.due:
                if now >= child.due and not self.is_stopping:
                    self._restart(child)
                continue
            code = child.process.poll()
            if code is None:
                continue
            steady = now - child.started > STEADY_SECONDS
            child.crashes = 1 if steady else child.crashes + 1
            wait = _PAUSES.after(child.crashes)
            child.due = now + wait
            facts = {"role": child.role.name, "exit": code, "wait_seconds": wait}
            log.warning("%s ended", child.role.name, extra=facts)
        reap()

    def _restart(self, child: RunningRole) -> None:
        try:
            self._start(child.role)
        except (OSError, TerminalError) as error:
            child.crashes += 1
            child.due = time.monotonic() + _PAUSES.after(child.crashes)
            log.warning("%s cannot start: %s", child.role.name, error)

    def stop(self) -> None:
        """End ours, then the servers they use, then whatever is still below us."""
        self.is_stopping = True
        ours = [one for one in self.children.values() if not one.role.is_server]
        servers = [one for one in self.children.values() if one.role.is_server]
        below = [one for role in ours for one in descendants(role.process.identity)]
        stop_all([one.process for one in ours])
        end(below, sign=signal.SIGKILL, grace_seconds=1.0)
        stop_all([one.process for one in servers])
        rest = descendants(ProcessIdentity.own())
        end(rest, sign=signal.SIGKILL, grace_seconds=5.0)
        reap()


def _class_path() -> str:
    """Every jar of Spark processes, ours built from the sources as they are now."""
    own = ensure_sluice_jar(log.info)
    lake = os.environ.get("SLUICE_LAKE_URI", "")
    return os.environ.get("SLUICE_SPARK_JARS") or os.pathsep.join(
        str(path) for path in (own, *jar_paths(*extras_of(lake)))
    )


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as reply:
            return bool(reply.status == 200)
    except urllib.error.HTTPError as error:
        error.close()
        return False
    except OSError:
        return False


def _listens(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=1).close()
    except OSError:
        return False
    return True


def describe(error: TerminalError) -> str:
    """The problem as one JSON line, for the quickstart that waits for us."""
    return json.dumps(
        {"message": error.message, "hint": error.hint, "log": error.facts.get("log")}
    )
