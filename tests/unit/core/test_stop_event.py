"""A process is told to end."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from core.processes.stop import stop_event


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """pytest's own come back."""
    before = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_each_signal_asks_for_the_end(number: signal.Signals) -> None:
    stop = stop_event()
    assert not stop.is_set()
    signal.raise_signal(number)
    assert stop.is_set()
