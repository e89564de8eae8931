"""A default port moves on when it is taken; a wished one is an error."""

from __future__ import annotations

import socket

import pytest

from config.supervisor.ports import choose, free_port
from core.errors import TerminalError


def test_a_taken_default_moves_to_the_next_free_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        chosen = choose(explicit=None, default=taken, what="web", taken=frozenset())
    assert taken < chosen <= taken + 200


def test_ports_given_away_in_this_start_count_as_taken() -> None:
    port = free_port()
    chosen = choose(explicit=None, default=port, what="web", taken=frozenset({port}))
    assert chosen > port


def test_an_explicit_port_that_is_taken_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        with pytest.raises(TerminalError, match=f"port {taken} for web is taken"):
            choose(explicit=taken, default=1, what="web", taken=frozenset())
