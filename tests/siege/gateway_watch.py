"""What a siege does to the gateway's process and its engine, seen from outside."""

from __future__ import annotations

import http.client
import json
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PAUSE_SECONDS = 0.02
LOOK_SECONDS = 1.0


@dataclass
class Seen:
    """engines: process ids, one after the other; the rest of the event loop, which
    answers a request without any work of its own.

    longest_wait   seconds until such an answer came
    longest_busy   of these, seconds of the processor that the loop's thread used: no
                   step of the loop took longer
    """

    engines: list[int] = field(default_factory=list)
    pings: int = 0
    longest_wait: float = 0.0
    longest_busy: float = 0.0

    @property
    def engine_deaths(self) -> int:
        return max(0, len(self.engines) - 1)


class GatewayWatch:
    """Looks from `with` to its end, with a thread of its own for each of both."""

    def __init__(self, home: Path) -> None:
        self.seen = Seen()
        self._home = home
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=work, daemon=True)
            for work in (self._watch_engine, self._watch_loop)
        ]

    def __enter__(self) -> Seen:
        for thread in self._threads:
            thread.start()
        return self.seen

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _watch_engine(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            with suppress(OSError, ValueError):
                pid = _read(self._home / "run" / "engine-main.pid.json")["pid"]
                if pid and pid not in self.seen.engines[-1:]:
                    self.seen.engines.append(pid)

    def _watch_loop(self) -> None:
        connection = None
        while not self._over.wait(PAUSE_SECONDS):
            try:
                address = _read(self._home / "run" / "gateway-internal.json")
                connection = connection or http.client.HTTPConnection(
                    address["host"], address["port"], timeout=60
                )
                self._ping(connection, address["pid"])
            except (OSError, ValueError, http.client.HTTPException):
                connection = None

    def _ping(self, connection: http.client.HTTPConnection, pid: int) -> None:
        """Without the secret: refused at once, by the loop itself."""
        used, began = _processor_seconds(pid), time.monotonic()
        connection.request("GET", "/state")
        connection.getresponse().read()
        waited = time.monotonic() - began
        busy = min(waited, _processor_seconds(pid) - used)
        self.seen.pings += 1
        self.seen.longest_wait = max(self.seen.longest_wait, waited)
        self.seen.longest_busy = max(self.seen.longest_busy, busy)


def _read(path: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(path.read_text())
    return facts


def _processor_seconds(pid: int) -> float:
    """Of the process's first thread, which runs the loop."""
    used = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]
    return int(used) / 1e9
