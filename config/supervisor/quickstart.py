"""`manage.py quickstart`: starts a home's stack, walks the demo, ends it again.

It runs before any settings exist, so it knows the supervisor and never Django.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import psutil

from config.supervisor.home import Home, make_keys
from config.supervisor.stack import ROOT
from config.toolchain.combination import problem
from config.toolchain.installed import installed
from config.toolchain.javac import ensure_sluice_jar
from core.errors import SluiceError, TerminalError
from core.processes.child import ChildSpec, spawn
from core.processes.identity import (
    ProcessIdentity,
    descendants,
    end,
    living_identity,
    read_identity,
)
from core.processes.marks import Mark

START_SECONDS = 300.0
STOP_SECONDS = 90.0


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="manage.py quickstart",
        description="Start Sluice on this machine with embedded servers and a demo.",
    )
    made.add_argument(
        "--home",
        type=Path,
        default=ROOT / ".sluice",
        help="folder that holds everything; .sluice of the checkout by default",
    )
    made.add_argument("--detach", action="store_true", help="return once it is up")
    made.add_argument("--no-demo", action="store_true", help="without demo source")
    made.add_argument("--stop", action="store_true", help="end what runs from --home")
    made.add_argument(
        "--web-port", type=int, help="of pages and REST; 8000 or the next free one"
    )
    made.add_argument(
        "--gateway-port", type=int, help="of JDBC; 10000 or the next free one"
    )
    made.add_argument(
        "--gateway-http-port",
        type=int,
        help="of JDBC over HTTP; 10001 or the next free one",
    )
    return made


def main(arguments: Sequence[str]) -> int:
    given = parser().parse_args(arguments)
    home = Home(given.home.absolute())
    if given.stop:
        stop(home)
        return 0
    try:
        return _start(home, given)
    except SluiceError as error:
        print(f"quickstart: {error}", file=sys.stderr, flush=True)  # noqa: T201
        if tail := error.facts.get("log"):
            print(tail, file=sys.stderr, flush=True)  # noqa: T201
        return 1


def _start(home: Home, given: argparse.Namespace) -> int:
    if line := problem(installed()):
        raise TerminalError(line)
    if living_identity(home.supervisor_file):
        raise TerminalError(
            f"Sluice runs already from {home.path}",
            code="already_running",
            hint="end it with `make stop` or choose another --home",
        )
    started = time.monotonic()
    make_keys(home.path)
    ensure_sluice_jar(say)
    supervisor = _spawn(home, given)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        connection = wait_until_up(home, supervisor)
        say(f"up after {time.monotonic() - started:.0f} s: {connection['web_url']}")
        if not given.no_demo:
            _walk(home, is_detached=given.detach)
        _show(connection, home, time.monotonic() - started)
        if given.detach:
            return 0
        say("Ctrl-C ends it.")
        while supervisor.is_alive():
            time.sleep(0.5)
    except KeyboardInterrupt:
        say("\nstopping")
    except Exception:
        owner = read_identity(home.supervisor_file)
        if owner is None or owner.pid == supervisor.pid:
            stop(home)  # never a stack that another process has started since
        raise
    stop(home)
    return 0


def _walk(home: Home, *, is_detached: bool) -> None:
    """The demo. On a terminal, a failure leaves all running to look at."""
    from config.demo.walk import walk  # PyHive only where it is used

    try:
        walk(home.path, say)
    except SluiceError as error:
        if is_detached:
            raise
        say(f"the demo stopped: {error}")


def _interrupt(sign: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _spawn(home: Home, given: argparse.Namespace) -> ProcessIdentity:
    command = [sys.executable, "-m", "config.supervisor", "--home", str(home.path)]
    for name in ("web_port", "gateway_port", "gateway_http_port"):
        if getattr(given, name) is not None:
            command += [f"--{name.replace('_', '-')}", str(getattr(given, name))]
    if given.no_demo:
        command.append("--no-demo")
    home.problem_file.unlink(missing_ok=True)
    spec = ChildSpec(
        name="supervisor",
        command=command,
        environment={"SLUICE_HOME": str(home.path), "PYTHONUNBUFFERED": "1"},
        log=home.logs / "supervisor.log",
        directory=ROOT,
        death_signal=None if given.detach else signal.SIGTERM,
    )
    return spawn(spec).let_go()


def wait_until_up(home: Home, supervisor: ProcessIdentity) -> dict[str, object]:
    """The content of connection.json; TerminalError with what the supervisor said."""
    limit = time.monotonic() + START_SECONDS
    while time.monotonic() < limit:
        owner = read_identity(home.supervisor_file)
        if home.connection_file.exists() and owner and owner.pid == supervisor.pid:
            found: dict[str, object] = json.loads(home.connection_file.read_text())
            return found
        if not supervisor.is_alive():
            break
        time.sleep(0.1)
    if home.problem_file.exists():
        report = json.loads(home.problem_file.read_text())
        facts = {"log": report["log"]} if report.get("log") else {}
        raise TerminalError(report["message"], hint=report["hint"], facts=facts)
    raise TerminalError("Sluice did not start", hint=f"see {home.logs}/supervisor.log")


def stop(home: Home) -> None:
    """End everything of this home; returns when no process of it is left."""
    if supervisor := living_identity(home.supervisor_file):
        below = descendants(supervisor)
        end([supervisor], grace_seconds=STOP_SECONDS)
        end(below, sign=signal.SIGKILL, grace_seconds=5.0)
    for path in sorted(home.run.glob("*.pid.json")):
        identity = living_identity(path)
        is_server = path.name.startswith("postgres-")
        if identity is not None and _is_ours(identity):
            end([identity], sign=signal.SIGINT if is_server else signal.SIGTERM)
    end(_marked(home), sign=signal.SIGKILL, grace_seconds=5.0)
    leftovers = [*home.run.glob("*.pid.json"), *home.run.glob("*.lock")]
    for path in [*leftovers, home.connection_file]:
        path.unlink(missing_ok=True)
    say("stopped")


def _is_ours(identity: ProcessIdentity) -> bool:
    """Not ourselves, nor the shell that called us: pid files may be very old."""
    return identity.pid not in {os.getpid(), os.getppid()}


def _marked(home: Home) -> list[ProcessIdentity]:
    """Processes that still carry this home in their environment."""
    own = {parent.pid for parent in psutil.Process().parents()}
    found = []
    for process in Mark("SLUICE_HOME", str(home.path)).processes():
        identity = ProcessIdentity.of(process.pid)
        # a test or a shell with the same setting is not part of the stack
        if process.pid not in own and identity and _is_stack(process):
            found.append(identity)
    return found


def _is_stack(process: psutil.Process) -> bool:
    try:
        line = " ".join(process.cmdline())
    except psutil.Error:
        return False
    return any(word in line for word in ("config.", "manage.py", "spark", "sluice"))


def http_url_of(connection: Mapping[str, Any]) -> str:
    """The JDBC URL of the gateway's HTTP transport."""
    gateway, binary = connection["gateway"], connection["jdbc_url"]
    url = binary.replace(f":{gateway['port']}/", f":{gateway['http_port']}/")
    return f"{url};transportMode=http;httpPath=cliservice"


def _show(connection: Mapping[str, Any], home: Home, seconds: float) -> None:
    say("")
    say(f"Sluice runs ({seconds:.0f} s after the start)")
    say(f"  web      {connection['web_url']}")
    say(f"  login    {connection['username']}  password {connection['password']}")
    say(f"  JDBC     {connection['jdbc_url']}")
    say(f"           {http_url_of(connection)}")
    say(f"  all of it in {home.connection_file}")
