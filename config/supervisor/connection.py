"""`connection.json`: where everything answers and which processes there are."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from config.supervisor.home import Home
from config.supervisor.stack import Stack
from core.files import write_private
from core.processes.identity import read_identity


def connection_of(stack: Stack, pids: Mapping[str, int | None]) -> dict[str, object]:
    """The content, from what is running now. `pids`: by role, of our own children."""
    login = json.loads(stack.home.administrator_file.read_text())
    host, port = stack.gateway_host, stack.ports.gateway
    return {
        "web_url": stack.web_url,
        "username": login["username"],
        "password": login["password"],
        "token": login["token"],
        "gateway": {"host": host.strip("[]"), "port": port, "http_port": None},
        "jdbc_url": f"jdbc:hive2://{host}:{port}/default",
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
    identity = read_identity(path)
    return identity.pid if identity and identity.is_alive() else None


def _lake(stack: Stack) -> str:
    named = os.environ.get("SLUICE_LAKE_URI")
    return (named or str(stack.home.path / "lake")).removeprefix("file://")


class ConnectionFile:
    """Rewrites the file only when its content changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = ""

    def write(self, content: dict[str, object]) -> None:
        text = json.dumps(content, indent=2)
        if text != self._written:
            write_private(self._path, text)
            self._written = text
