"""Instants as text: ISO 8601 in UTC, with Z."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import overload


@overload
def iso(at: datetime) -> str: ...


@overload
def iso(at: None) -> None: ...


def iso(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat().replace("+00:00", "Z")
