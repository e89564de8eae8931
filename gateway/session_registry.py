"""The HiveServer2 sessions of this gateway process, above its transports.

A session belongs to its user: whatever connection proves that user may use its handle,
nobody else. One that was opened over the binary transport ends with its connection, one
of HTTP has none and ends once it was idle. Must not know sockets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from catalog.access.proofs import Proof
from core.errors import InvalidRequest
from gateway.hs2.values import Handle
from gateway.limits import GatewayLimits
from gateway.metrics import SESSIONS
from gateway.operation import Operation

if TYPE_CHECKING:
    from gateway.session import Session


class SessionRegistry:
    """Finds sessions by user and handle, and ends them. One per gateway process."""

    def __init__(self, limits: GatewayLimits) -> None:
        self._limits = limits
        self._of_user: dict[str, dict[bytes, Session]] = {}
        self._by_operation: dict[bytes, Session] = {}

    def __iter__(self) -> Iterator[Session]:
        return iter([one for held in self._of_user.values() for one in held.values()])

    def require_room(self, user: str) -> None:
        """InvalidRequest when one more session of that user is one too many."""
        if len(self._of_user.get(user, ())) >= self._limits.sessions_per_user:
            raise InvalidRequest(
                "you have %(count)s open sessions",
                count=self._limits.sessions_per_user,
                code="too_many_sessions",
                hint="close sessions that are done with",
            )

    def add(self, session: Session) -> None:
        self._of_user.setdefault(session.user, {})[session.handle.guid] = session
        SESSIONS.inc()

    def find(self, user: str, handle: Handle) -> Session | None:
        found = self._of_user.get(user, {}).get(handle.guid)
        return found if found and found.handle == handle else None

    def find_operation(
        self, user: str, handle: Handle
    ) -> tuple[Session, Operation] | None:
        session = self._by_operation.get(handle.guid)
        if session is None or self.find(user, session.handle) is not session:
            return None
        operation = session.find(handle)
        return (session, operation) if operation else None

    def note_operation(self, operation: Operation, session: Session) -> None:
        """Find it from now on, as long as the session is found."""
        self._by_operation[operation.handle.guid] = session

    def forget_operation(self, operation: Operation) -> None:
        """Find it no more. Idempotent."""
        self._by_operation.pop(operation.handle.guid, None)

    async def end(self, sessions: Iterable[Session]) -> None:
        """End these with their statements; their handles open nothing any more."""
        going = [one for one in sessions if self._forget(one)]
        await asyncio.gather(*(one.close() for one in going))

    async def end_of_connection(self, user: str, connection: object) -> None:
        """End what a connection that is gone had opened."""
        held = self._of_user.get(user, {}).values()
        await self.end([one for one in held if one.connection is connection])

    async def end_of_users(self, users: Collection[str]) -> None:
        await self.end([one for one in self if one.user in users])

    async def end_lapsed(self, lapsed: Collection[Proof]) -> None:
        """End the sessions that were opened by one of these proofs."""
        await self.end([one for one in self if one.proof in lapsed])

    async def end_idle(self, now: float) -> None:
        """End sessions and free operations that were idle for long."""
        for session in self:
            await session.end_overdue()
            session.close_idle()
            running = any(o.is_alive for o in session.operations.values())
            if not running and now - session.touched > self._patience(session):
                await self.end([session])
                continue
            for operation in list(session.operations.values()):
                is_old = now - operation.touched > self._limits.operation_idle_seconds
                if is_old and not operation.is_alive:
                    await session.free(operation)

    def proofs(self) -> set[Proof]:
        return {one.proof for one in self if one.proof}

    def users(self) -> set[str]:
        return set(self._of_user)

    def _patience(self, session: Session) -> float:
        if session.connection is None:
            return self._limits.detached_idle_seconds
        return self._limits.session_idle_seconds

    def _forget(self, session: Session) -> bool:
        held = self._of_user.get(session.user, {})
        if held.pop(session.handle.guid, None) is None:
            return False
        if not held:
            del self._of_user[session.user]
        SESSIONS.dec()
        return True
