"""Texts of other processes as PostgreSQL takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


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
