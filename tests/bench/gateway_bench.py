"""What the gateway costs: latency of SELECT 1, fetch against the bare Thrift Server,
a thousand idle connections, the way from no engine to a first row. Run alone: `python -m tests.bench.gateway_bench FILE`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import json
import multiprocessing
import os
import shutil
import socket
import statistics
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

PASSWORD = "correct horse battery"
ROUNDS = int(os.environ.get("SLUICE_BENCH_ROUNDS", "100"))
# The JVM compiles what these run: before, its compilers and not the gateway are measured.
WARM_ROUNDS = 150
ROWS = int(os.environ.get("SLUICE_BENCH_ROWS", "500000"))
BATCH = 10_000
IDLE = 1000
CLIENTS, TURNS, EACH = (1, 8), 6, 25
COLD_RUNS = int(os.environ.get("SLUICE_BENCH_COLD", "3"))
WIDE = (
    "SELECT id, id * 2 AS twice, cast(id AS double) AS d, cast(id AS string) AS s, "
    "cast(id * 1.01 AS decimal(18,2)) AS amount, id % 2 = 0 AS even FROM range({rows})"
)


class BenchClient:
    """The thinnest HiveServer2 client: it reads result frames and does not decode."""

    def __init__(self, port: int, username: str, secret: str) -> None:
        from gateway.hs2 import calls, framing, messages

        self._calls, self._messages = calls, messages
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=300)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(framing.client_opening(username, secret))
        assert self._read(5)[0] == 5, "login refused"
        reply = self._ask(messages.OpenSession(client_protocol=7))
        self._session = reply.session

    def execute(self, sql: str) -> Any:
        """Run a statement synchronously and return its handle."""
        request = self._messages.ExecuteStatement(session=self._session, statement=sql)
        reply = self._ask(request)
        assert reply.status.code in {0, 1}, reply.status.message
        return reply.operation

    def fetch(self, operation: Any) -> bytes:
        """Return the bytes of one reply to FetchResults."""
        request = self._messages.FetchResults(operation=operation, max_rows=BATCH)
        return self._exchange(self._calls.encode_call(request, sequence=1))

    def finish(self, operation: Any) -> None:
        """Close a statement."""
        self._ask(self._messages.CloseOperation(operation=operation))

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _ask(self, request: Any) -> Any:
        data = self._exchange(self._calls.encode_call(request, sequence=1))
        return self._calls.decode_reply(data, type(request), sequence=1)

    def _exchange(self, message: bytes | bytearray) -> bytes:
        self._socket.sendall(struct.pack("!I", len(message)) + message)
        (size,) = struct.unpack("!I", self._read(4))
        return self._read(size)

    def _read(self, size: int) -> bytes:
        data = bytearray(size)
        view = memoryview(data)
        done = 0
        while done < size:
            got = self._socket.recv_into(view[done:])
            if not got:
                raise ConnectionError("the server hung up")
            done += got
        return bytes(data)


class HttpBenchClient(BenchClient):
    """The same over one kept connection of HTTP."""

    def __init__(self, port: int, username: str, secret: str) -> None:
        from gateway.hs2 import calls, messages

        self._calls, self._messages = calls, messages
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        self._http.connect()
        self._http.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        login = base64.b64encode(f"{username}:{secret}".encode()).decode()
        self._headers = {
            "Authorization": f"Basic {login}",
            "Content-Type": "application/x-thrift",
        }
        self._session = self._ask(messages.OpenSession(client_protocol=7)).session

    def close(self) -> None:
        """Hang up."""
        self._http.close()

    def _exchange(self, message: bytes | bytearray) -> bytes:
        self._http.request("POST", "/cliservice", bytes(message), self._headers)
        return self._http.getresponse().read()


def one_select(client: BenchClient) -> float:
    """Seconds of a whole SELECT 1: execute, fetch, close."""
    began = time.perf_counter()
    operation = client.execute("SELECT 1")
    client.fetch(operation)
    client.finish(operation)
    return time.perf_counter() - began


def one_fetch(client: BenchClient) -> float:
    """Rows per second of fetching ROWS computed rows."""
    from gateway.hs2.rowset import count_rows, cut_fetch_reply

    operation = client.execute(WIDE.format(rows=ROWS))
    began = time.perf_counter()
    total = 0
    while rows := count_rows(
        cut_fetch_reply(client.fetch(operation), sequence=1).row_set
    ):
        total += rows
    seconds = time.perf_counter() - began
    client.finish(operation)
    assert total == ROWS, total
    return total / seconds


@dataclass(frozen=True)
class Doors:
    """Where to knock: the gateway, and the engine itself with its secret."""

    gateway_port: int
    engine_port: int
    engine_secret: str
    gateway_pid: int
    http_port: int


def measure(doors: Doors) -> dict[str, float]:
    """All figures, gateway and engine taking turns A B B A."""
    through = BenchClient(doors.gateway_port, "bench", PASSWORD)
    one_select(through)  # the engine learns the user's policy here
    direct = BenchClient(doors.engine_port, "bench", doors.engine_secret)
    for _ in range(WARM_ROUNDS):
        one_select(direct)
        one_select(through)
    latency: dict[str, list[float]] = {"direct": [], "gateway": []}
    for turn in range(ROUNDS):
        pair = [("direct", direct), ("gateway", through)]
        for name, client in pair if turn % 2 else pair[::-1]:
            latency[name].append(one_select(client))
    speed: dict[str, list[float]] = {"direct": [], "gateway": []}
    order = [("direct", direct), ("gateway", through)]
    for name, client in [*order, *order[::-1], *order, *order[::-1]]:
        speed[name].append(one_fetch(client))
    figures = {
        "select1_direct_ms": 1000 * statistics.median(latency["direct"]),
        "select1_gateway_ms": 1000 * statistics.median(latency["gateway"]),
        "select1_added_ms": 1000
        * statistics.median(
            [g - d for g, d in zip(latency["gateway"], latency["direct"], strict=True)]
        ),
        "fetch_direct_rows_s": statistics.median(speed["direct"]),
        "fetch_gateway_rows_s": statistics.median(speed["gateway"]),
    }
    figures["fetch_ratio"] = (
        figures["fetch_gateway_rows_s"] / figures["fetch_direct_rows_s"]
    )
    for clients in CLIENTS:
        figures |= measure_added(doors, clients)
    figures |= measure_idle(doors, through)
    direct.close()
    through.close()
    return figures


def measure_added(doors: Doors, clients: int) -> dict[str, float]:
    """What the gateway adds to SELECT 1 while so many clients send one after another,
    by transport: at the median, and at the 95th of a hundred."""
    makers = {
        "direct": lambda: BenchClient(doors.engine_port, "bench", doors.engine_secret),
        "binary": lambda: BenchClient(doors.gateway_port, "bench", PASSWORD),
        "http": lambda: HttpBenchClient(doors.http_port, "bench", PASSWORD),
    }
    opened = [{name: make() for name, make in makers.items()} for _ in range(clients)]
    taken: dict[str, list[float]] = {name: [] for name in makers}
    for client in opened:
        for one in client.values():
            one_select(one)
    for turn in range(TURNS):
        for name in sorted(makers, reverse=turn % 2 == 1):
            with ThreadPoolExecutor(clients) as pool:
                done = pool.map(
                    lambda one: [one_select(one) for _ in range(EACH)],
                    [client[name] for client in opened],
                )
            taken[name] += [1000 * seconds for each in done for seconds in each]
    for client in opened:
        for one in client.values():
            one.close()
    at = {
        name: (statistics.median(times), statistics.quantiles(times, n=20)[-1])
        for name, times in taken.items()
    }
    return {
        f"{name}_{clients}_clients_{which}_ms": at[name][place] - at["direct"][place]
        for name in ("binary", "http")
        for place, which in enumerate(("added_p50", "added_p95"))
    }


def measure_idle(doors: Doors, client: BenchClient) -> dict[str, float]:
    """A thousand sessions that do nothing: memory each, and SELECT 1 beside them."""
    me = psutil.Process(doors.gateway_pid)
    before = me.memory_info().rss
    held = [BenchClient(doors.gateway_port, "bench", PASSWORD) for _ in range(IDLE)]
    grown = me.memory_info().rss - before
    times = [one_select(client) for _ in range(30)]
    for idle in held:
        idle.close()
    return {
        "idle_sessions": IDLE,
        "idle_kib_per_session": grown / 1024 / IDLE,
        "select1_beside_idle_ms": 1000 * statistics.median(times),
    }


class BenchGateway:
    """A gateway of this process, on a loop of its own."""

    def __init__(self, home: Path) -> None:
        import uvloop

        self._home = home
        self._loop = uvloop.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._on_loop(self._begin())

    def doors(self) -> Doors:
        """Where to knock, once the engine runs."""
        self._on_loop(self._gateway.supervisor.ready(seconds=240))
        running = self._gateway.supervisor.client._running
        return Doors(
            self._gateway.port,
            running.port,
            running.secret,
            os.getpid(),
            self._gateway.http_port,
        )

    def cold_start(self) -> float:
        """Seconds from no engine process at all to the first row in a client's hand."""
        self._on_loop(self._without_engine())
        began = time.perf_counter()
        client = BenchClient(self._gateway.port, "bench", PASSWORD)
        operation = client.execute("SELECT 1")
        client.fetch(operation)
        seconds = time.perf_counter() - began
        client.close()
        return seconds

    def close(self) -> None:
        """End gateway and engine."""
        self._on_loop(self._gateway.close())
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _begin(self) -> None:
        from gateway.management.commands.gateway import _client
        from gateway.process import Gateway, GatewaySpec

        facts = self._home / "internal.json"
        spec = GatewaySpec(self._home, "127.0.0.1", 0, 0, facts, "bench-secret")
        self._gateway = Gateway(spec, _client)
        await self._gateway.start()

    async def _without_engine(self) -> None:
        from gateway.engines.lifecycle import Desired

        supervisor = self._gateway.supervisor
        supervisor.desired = Desired.STOPPED
        await supervisor.client.stop(grace_seconds=15)
        assert supervisor.facts().pid is None

    def _on_loop(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(300)


@contextlib.contextmanager
def running_gateway(home: Path) -> Iterator[BenchGateway]:
    """A gateway with a real engine and its own database below `home`."""
    from config.embedded import EmbeddedPostgres
    from config.supervisor.home import make_keys

    make_keys(home)
    server = EmbeddedPostgres(home, "metadata", durable=True)
    address = server.start()
    server.ensure_database("sluice")
    os.environ |= {
        "SLUICE_HOME": str(home),
        "SLUICE_DATABASE_URL": address.url("sluice"),
        "DJANGO_SETTINGS_MODULE": "config.settings",
    }
    try:
        _prepare()
        gateway = BenchGateway(home)
        try:
            yield gateway
        finally:
            gateway.close()
    finally:
        server.destroy()


def _prepare() -> None:
    import django

    django.setup()
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.db import connections

    call_command("migrate", verbosity=0)
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    User.objects.create_user("bench", password=PASSWORD)
    connections.close_all()


def _apart(doors: Doors) -> dict[str, float]:
    """Measure from a process of its own: client and gateway must not share a GIL."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(measure, doors).result()


def run() -> dict[str, float]:
    """Measure in a throw-away home and return the figures."""
    home = Path(tempfile.mkdtemp(prefix="sluice-bench-"))
    try:
        with running_gateway(home) as gateway:
            cold = [gateway.cold_start() for _ in range(COLD_RUNS)]
            figures = _apart(gateway.doors())
        return figures | {
            "cold_engine_first_row_seconds": statistics.median(cold),
            "cold_engine_first_row_slowest_seconds": max(cold),
        }
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":  # stdout belongs to the JVM
    target = Path(sys.argv[1])
    target.write_text(json.dumps(run(), indent=2) + "\n")
