"""How values and places are written in JSON: instants, large integers, pointers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

LARGEST_EXACT = 2**53  # up to it, readers that hold numbers as doubles keep integers


def escape(part: object) -> str:
    """One part of a JSON pointer (RFC 6901): a member's name or an index."""
    return str(part).replace("~", "~0").replace("/", "~1")


def unescape(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


def below(pointer: str, part: object) -> str:
    """The pointer of a member of what `pointer` is about."""
    return f"{pointer}/{escape(part)}"


def exact(value: int) -> int | str:
    """A number while every JSON reader keeps it exactly, else a string."""
    return value if abs(value) <= LARGEST_EXACT else str(value)


def iso(at: datetime) -> str:
    """ISO 8601 in UTC, with Z."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def storable(value: Any) -> Any:
    """Return a JSON value with NUL and halves of letters, which PostgreSQL has no place
    for, written as Python writes them: a value of a row may be in any text."""
    if isinstance(value, str):
        shown = value.replace("\x00", "\\x00")
        return shown.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, Mapping):
        return {storable(key): storable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [storable(one) for one in value]
    return value
