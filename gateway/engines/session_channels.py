"""The channels of one engine session: few, each with a socket and a thread over there.

The first owns the engine session, which ends with it; one is for cancel and what is
answered at once; the others are opened while those before them are taken. Must not
know what calls mean.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from gateway.engines.channel import EngineChannel
from gateway.engines.port import EngineUnavailable

# The engine's worker threads are as many as all sessions can have of these.
MOST_CHANNELS = 6

ChannelOpener = Callable[[], Awaitable[EngineChannel]]


class SessionChannels:
    """At most MOST_CHANNELS; who finds none waits in turn."""

    def __init__(self, opener: ChannelOpener, owner: EngineChannel) -> None:
        self.owner = owner
        self._opener = opener
        self._idle = [owner]
        self._taken: set[EngineChannel] = set()
        self._places = asyncio.Semaphore(MOST_CHANNELS - 1)
        self._control: EngineChannel | None = None
        self._control_opens = asyncio.Lock()
        self._is_ended = False
        self._is_closed = False

    @property
    def is_ended(self) -> bool:
        """True when the engine session is gone, or about to be."""
        return self._is_ended or self.owner.is_closed

    @contextlib.asynccontextmanager
    async def one(self) -> AsyncIterator[EngineChannel]:
        """Hold a channel for a call that may take its time."""
        async with self._places:  # taken before a channel is opened: none is too many
            self._require_open()
            channel = self._next_idle() or await self._open()
            self._taken.add(channel)
            try:
                yield channel
            finally:
                self._taken.discard(channel)
                self._put_back(channel)

    async def at_once(self) -> EngineChannel:
        """Return a channel for a call that is answered at once: it waits for nobody,
        and others may follow behind it."""
        self._require_open()
        idle = (one for one in self._idle if not one.is_closed)
        return next(idle, None) or await self.control()

    async def control(self) -> EngineChannel:
        """Return the channel that no long call ever takes."""
        async with self._control_opens:
            if self._control is None or self._control.is_closed:
                self._control = await self._open()
            return self._control

    def close_idle(self) -> None:
        """Close what nobody uses, but the owner."""
        spare = [*self._idle, *filter(None, [self._control])]
        for channel in spare:
            if channel is not self.owner and channel.is_at_rest:
                channel.close()
        self._idle = [one for one in self._idle if not one.is_closed]

    def end(self) -> None:
        """Hand out no more of them, but the one for control."""
        self._is_ended = True

    def close(self) -> None:
        self._is_ended = self._is_closed = True
        for channel in [*self._idle, *self._taken, *filter(None, [self._control])]:
            channel.close()

    def _next_idle(self) -> EngineChannel | None:
        self._idle = [one for one in self._idle if not one.is_closed]
        return self._idle.pop(0) if self._idle else None

    def _put_back(self, channel: EngineChannel) -> None:
        if channel.is_closed:
            return
        # the owner is there in any case: others are idle for longer, and let go of
        self._idle.insert(0 if channel is self.owner else len(self._idle), channel)

    async def _open(self) -> EngineChannel:
        channel = await self._opener()
        if self._is_closed:
            channel.close()
            raise EngineUnavailable("the session of the query engine is closed")
        return channel

    def _require_open(self) -> None:
        if self.is_ended:
            raise EngineUnavailable("the session of the query engine is closed")
