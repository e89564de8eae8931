"""Time as a dependency: code that decides by time asks a clock."""

from __future__ import annotations

from datetime import UTC, datetime


class SystemClock:
    def now(self) -> datetime:
        """Return the current instant, aware, in UTC."""
        return datetime.now(UTC)
