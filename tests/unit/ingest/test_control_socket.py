"""Both ends of the socket that submitted drivers come back to."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.control_channel.channel import Channel, SocketStream
from core.control_channel.framing import LARGEST_GREETING
from core.sockets import connect_unix
from ingest.driver.serve import ControlSocket
from ingest.driver_host.control_socket import Connection, ControlDoor, Greeting
from tests.waiting import LIMIT_SECONDS, wait_for


class Host:
    """One host's end, which keeps what it hears."""

    def __init__(self, path: Path) -> None:
        self.greetings: list[Greeting] = []
        self.connection: Connection | None = None
        self.heard: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._door = ControlDoor(path, admit=self._admit, hear=self._hear)

    def _admit(self, who: Greeting, connection: Connection) -> bool:
        self.greetings.append(who)
        self.connection = connection
        return who.attempt == 1

    def _hear(self, job_id: str, attempt: int, message: dict[str, Any]) -> None:
        self.heard.put(message)

    def next(self) -> dict[str, Any]:
        return self.heard.get(timeout=LIMIT_SECONDS)

    def end(self) -> None:
        self._door.close()
        if self.connection is not None:
            self.connection.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "door" / "control.sock"


@pytest.fixture
def hosts(path: Path) -> Iterator[list[Host]]:
    made = [Host(path)]
    yield made
    for host in made:
        host.end()


@pytest.mark.parametrize(
    "first",
    [
        b"noise\n",
        b"[]\n",
        b"{}\n",
        b'{"job_id": "7"}\n',
        b'{"job_id": "7", "attempt": null}\n',
        b'{"job_id": "7", "attempt": "x"}\n',
        b"x" * (LARGEST_GREETING + 1),
    ],
)
def test_who_does_not_greet_is_hung_up_on(
    hosts: list[Host], path: Path, first: bytes
) -> None:
    with connect_unix(path) as end:
        end.settimeout(LIMIT_SECONDS)
        stream = SocketStream(end)
        stream.write(first)
        # a reset when what it sent was not read to the end
        with contextlib.suppress(ConnectionResetError):
            assert stream.read(1) == b""
    assert hosts[0].greetings == []


def test_a_driver_that_is_not_admitted_is_stopped(
    hosts: list[Host], path: Path
) -> None:
    with connect_unix(path) as end:
        end.settimeout(LIMIT_SECONDS)
        channel = Channel(SocketStream(end))
        channel.send({"type": "connect", "job_id": "7", "attempt": 2})
        assert list(channel.messages()) == [{"type": "stop"}]
    assert hosts[0].greetings == [Greeting("7", 2, is_accepted=False)]


def test_a_report_that_found_no_host_is_kept_for_the_next(
    hosts: list[Host], path: Path
) -> None:
    driver = ControlSocket(path, job_id="7", attempt=1)
    orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def listen() -> None:
        for order in driver.messages():
            orders.put(order)
            if order["type"] == "stop":
                return

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    first = hosts[0]
    wait_for(lambda: first.connection is not None, "the driver to connect")
    assert first.connection is not None
    first.connection.send({"type": "run"})
    assert orders.get(timeout=LIMIT_SECONDS) == {"type": "run"}
    driver.send("accepted", job_id="7")
    assert first.next() == {"type": "accepted", "job_id": "7"}
    first.end()
    wait_for(lambda: driver._channel is None, "the driver to miss its host")
    driver.send("heartbeat", at=1)
    driver.send("report", report={})
    hosts.append(Host(path))
    assert hosts[1].next() == {"type": "report", "report": {}}
    assert hosts[1].greetings == [Greeting("7", 1, is_accepted=True)]
    driver.flush(LIMIT_SECONDS)
    assert driver._kept == []
    assert hosts[1].connection is not None
    hosts[1].connection.send({"type": "stop"})
    listener.join()
