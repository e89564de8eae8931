"""The open sessions of this gateway process, for administrators: shown and ended.

Handles stay inside: they would open the session.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from core.errors import NotFound
from gateway.services import Services
from gateway.session import Session

MAX_TEXT = 2_000


class SessionService:
    """Serves the internal API, which has authenticated an administrator."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def describe_all(self) -> list[dict[str, Any]]:
        """All sessions, the oldest first."""
        engine = self._services.supervisor.facts().engine_id
        found = [_describe(session, engine) for session in self._services.sessions]
        return sorted(found, key=lambda one: (one["opened_at"], one["id"]))

    async def end(self, session_id: str) -> dict[str, Any]:
        """End a session with its statements; returns it as it was.

        The client's next call is answered that its handle is closed.
        """
        for session in self._services.sessions:
            if session.id == session_id:
                described = _describe(session, "")
                await self._services.sessions.end([session])
                return described
        raise NotFound("there is no such session", code="session_not_found")


def _describe(session: Session, engine: str | None) -> dict[str, Any]:
    running = [one for one in session.operations.values() if one.is_alive]
    newest = max(running, key=lambda one: one.started, default=None)
    return {
        "id": session.id,
        "user": session.user,
        "address": session.address,
        "client": session.client,
        "database": session.database,
        "opened_at": _instant(session.opened),
        "idle_seconds": 0.0
        if running
        else round(time.monotonic() - session.touched, 1),
        "engine": engine if session.has_engine else None,
        "statement": {
            "id": newest.id,
            "text": newest.statement[:MAX_TEXT],
            "state": str(newest.state),
            "started_at": _instant(newest.started),
        }
        if newest
        else None,
    }


def _instant(seconds: float) -> str:
    at = datetime.fromtimestamp(seconds, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
