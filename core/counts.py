"""What each of many holds, of whom only those that hold anything are remembered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)


def discount(counts: Counter[K], key: K, by: int = 1) -> None:
    """Count so many less; a key without any is forgotten."""
    counts[key] -= by
    if counts[key] <= 0:
        del counts[key]
