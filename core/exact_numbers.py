"""Integers in JSON: readers that hold numbers as doubles keep those up to 2^53."""

from __future__ import annotations

from typing import overload

LARGEST_EXACT = 2**53


@overload
def exact(value: int) -> int | str: ...


@overload
def exact(value: None) -> None: ...


def exact(value: int | None) -> int | str | None:
    """A number while every JSON reader keeps it exactly, else a string."""
    if value is None or abs(value) <= LARGEST_EXACT:
        return value
    return str(value)
