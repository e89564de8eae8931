"""Keeps one engine as wanted: starts it on demand, probes it, gives up on a dead one.

Acts on `lifecycle.next_action`. Must not know sessions or statements.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import replace

from core.errors import said_by
from core.sentences import as_sentence
from gateway.engines.lifecycle import (
    Action,
    Desired,
    EngineFacts,
    EngineState,
    Limits,
    next_action,
)
from gateway.engines.port import EngineClient, EngineUnavailable

log = logging.getLogger(__name__)

RECONCILE_SECONDS = 1.0
PROBE_SECONDS = 10.0
STOP_SECONDS = 15.0
_NOT_THERE = {EngineState.STOPPED, EngineState.FAILED}


class EngineSupervisor:
    """One engine. `ready` returns it, started if need be."""

    def __init__(self, client: EngineClient, *, limits: Limits | None = None) -> None:
        self.desired = Desired.STOPPED
        self._client = client
        self._limits = limits or Limits()
        self._failures = 0
        self._reason = ""
        self._tried_at: float | None = None
        self._seen_at: float | None = None
        self._start: asyncio.Task[None] | None = None
        self._loop_task: asyncio.Task[None] | None = None
        self._kick = asyncio.Event()
        self._changed = asyncio.Condition()

    def open(self) -> None:
        """Begin to reconcile the engine; nothing is started yet."""
        self._loop_task = asyncio.create_task(self._reconcile())

    @property
    def client(self) -> EngineClient:
        """The engine, in whatever state."""
        return self._client

    def facts(self) -> EngineFacts:
        """Return what is known, with this side's view of starts and silence."""
        facts = self._client.facts()
        state = facts.state
        if self._start and not self._start.done():
            state = EngineState.STARTING
        elif state in _NOT_THERE and self._failures:
            state = EngineState.FAILED
        seen = max(
            (t for t in (self._seen_at, facts.last_seen_at) if t is not None),
            default=None,
        )
        return replace(
            facts,
            state=state,
            started_at=self._tried_at,
            last_seen_at=seen,
            consecutive_failures=self._failures,
            reason=facts.reason or self._reason,
        )

    def want(self) -> None:
        """Say that an engine will be needed soon."""
        self.desired = Desired.RUNNING
        self._kick.set()

    async def ready(self, *, seconds: float) -> EngineClient:
        """Return the engine once it is READY; EngineUnavailable when it will not be.

        Fails at once with the reason when a start that began after this call failed.
        """
        if self._client.facts().state is EngineState.READY and not self._is_starting:
            return self._client
        self.want()
        failures = self._failures
        try:
            async with asyncio.timeout(seconds), self._changed:
                while not self._is_ready:
                    if self._failures > failures:
                        raise EngineUnavailable(
                            "the query engine did not start: %(reason)s",
                            reason=as_sentence(self._reason),
                            hint="see the engine's log; it is tried again",
                        )
                    await self._changed.wait()
        except TimeoutError as error:
            raise EngineUnavailable(
                "the query engine was not ready within %(seconds)s s",
                seconds=f"{seconds:.0f}",
            ) from error
        return self._client

    async def close(self) -> None:
        self.desired = Desired.STOPPED
        for task in (self._loop_task, self._start):
            if task:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, EngineUnavailable):
                    await task
        await self._client.stop(grace_seconds=STOP_SECONDS)

    @property
    def _is_starting(self) -> bool:
        return self._start is not None and not self._start.done()

    @property
    def _is_ready(self) -> bool:
        return self.facts().state is EngineState.READY

    async def _reconcile(self) -> None:
        while True:
            facts = self.facts()
            action = next_action(
                self.desired, facts, now=time.monotonic(), limits=self._limits
            )
            try:
                await self._act(action)
            except Exception:
                log.exception("reconciling the engine failed")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RECONCILE_SECONDS):
                    await self._kick.wait()
            self._kick.clear()

    async def _act(self, action: Action) -> None:
        if action is Action.START:
            self._tried_at = time.monotonic()
            self._seen_at = None
            self._start = asyncio.create_task(self._start_once())
        elif action is Action.PROBE:
            await self._probe()
        elif action in {Action.STOP, Action.KILL}:
            log.warning("engine is ended: %s %s", action, self._reason)
            if self._start:
                self._start.cancel()
            grace = STOP_SECONDS if action is Action.STOP else 0.0
            await self._client.stop(grace_seconds=grace)
            if action is Action.KILL:
                await self._failed("it did not answer any more")

    async def _start_once(self) -> None:
        try:
            await self._client.start()
        except EngineUnavailable as error:
            with contextlib.suppress(EngineUnavailable):
                await self._client.stop(grace_seconds=0.0)
            await self._failed(error.message)
            return
        self._seen_at = time.monotonic()
        self._failures, self._reason = 0, ""
        asyncio.get_running_loop().call_soon(self._notify_soon)

    async def _failed(self, reason: str) -> None:
        log.error("engine failed: %s", reason)
        self._failures += 1
        self._reason = reason
        async with self._changed:
            self._changed.notify_all()

    def _notify_soon(self) -> None:
        self._notifying = asyncio.ensure_future(self._notify())

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _probe(self) -> None:
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await self._client.probe()
        except (EngineUnavailable, TimeoutError) as error:
            self._reason = said_by(error) or "a probe was not answered in time"
            log.warning("engine probe failed: %s", self._reason)
            return
        self._seen_at = time.monotonic()
        await self._notify()
