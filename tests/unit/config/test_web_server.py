"""Whose connection ends when what nobody has read is too large together."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pytest

from config import web_server

HERE, ELSEWHERE = "192.0.2.1", "192.0.2.2"


@dataclass(eq=False)
class Connection:
    addr: tuple[str, int]
    held: int
    is_open: bool = True

    def handle_close(self) -> None:
        self.is_open = False


@pytest.mark.parametrize(
    ("held", "left"),
    [
        ([(HERE, 60), (ELSEWHERE, 40)], [60, 40]),
        ([(HERE, 20), (HERE, 50), (ELSEWHERE, 60)], [20, 60]),
        ([(HERE, 90), (HERE, 80), (HERE, 10), (ELSEWHERE, 70)], [10, 70]),
        ([("2001:db8::1", 30), ("2001:db8::2", 40), (ELSEWHERE, 50)], [30, 50]),
    ],
    ids=["none", "of who holds most", "as many as it takes", "one network of IPv6"],
)
def test_the_largest_go(held: list[tuple[str, int]], left: list[int]) -> None:
    connections: list[Any] = [Connection((where, 1), size) for where, size in held]
    web_server._bound(connections, attrgetter("held"), 100)
    assert [one.held for one in connections if one.is_open] == left
