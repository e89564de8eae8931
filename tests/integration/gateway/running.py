"""A whole gateway with a fake engine, on its own loop in a thread of the test."""

from __future__ import annotations

import asyncio
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest
import uvloop

from gateway.engines.port import EngineClient
from gateway.http_transport import HttpClient
from gateway.limits import GatewayLimits
from gateway.process import Gateway, GatewaySpec
from gateway.server import ClientProtocol
from tests.doubles.engine import FakeEngine
from tests.integration.gateway.loop_watch import LoopWatch
from tests.waiting import LIMIT_SECONDS

CALLBACKS = (
    (ClientProtocol, "data_received"),
    (ClientProtocol, "connection_made"),
    (ClientProtocol, "connection_lost"),
    (HttpClient, "data_received"),
    (HttpClient, "connection_made"),
    (HttpClient, "connection_lost"),
)
PASSWORD = "correct-horse-battery"
SECRET = "service-secret-of-the-test"


class RunningGateway:
    """`call` runs a coroutine on the gateway's loop and returns its result."""

    def __init__(
        self,
        home: Path,
        limits: GatewayLimits | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        engine: EngineClient | None = None,
    ) -> None:
        self.engine: Any = engine or FakeEngine()
        self._is_watched = engine is None  # a real one takes the processor
        self._spec = GatewaySpec(
            home=home,
            host="127.0.0.1",
            port=0,
            http_port=0,
            internal_file=home / "internal.json",
            service_secret=SECRET,
            lake_root="/srv/lake",
            limits=limits or GatewayLimits(),
            tls=tls,
        )
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._loop = self._runner.get_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.watch = LoopWatch()
        self._patches = pytest.MonkeyPatch()
        self.call(self._begin())

    def _run(self) -> None:
        # what the gateway does in the background ends with its loop, as `asyncio.run`
        # has it: an engine that others use goes on
        with self._runner:
            self._loop.run_forever()

    async def _begin(self) -> None:
        self.gateway = Gateway(self._spec, lambda questions: self.engine)
        await self.gateway.start()
        self.watch.begin(self._loop)
        for owner, method in CALLBACKS:
            self.watch.watch(owner, method, self._patches.setattr)

    @property
    def port(self) -> int:
        return self.gateway.port

    @property
    def http_port(self) -> int:
        return self.gateway.http_port

    @property
    def internal_file(self) -> Path:
        return self._spec.internal_file

    def call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(
            LIMIT_SECONDS
        )

    def do(self, work, *arguments):
        async def run():
            return work(*arguments)

        return self.call(run())

    def close(self) -> None:
        try:
            self.call(self.gateway.close())
        finally:
            self._patches.undo()
            self.watch.end()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT_SECONDS)
        assert self._loop.is_closed()
        assert self.watch.steps
        assert not self._is_watched or self.watch.slow == [], (
            "steps that stop all clients of the gateway"
        )
