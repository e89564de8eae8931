"""How what is found of lake tables is put into words. Pure."""

from __future__ import annotations


def counted(number: int, what: str) -> str:
    """`1 bucket`, `2 buckets`."""
    return f"{number} {what}{'' if number == 1 else 's'}"
