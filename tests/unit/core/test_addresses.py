"""Clients are told apart by what an address of theirs costs them."""

from __future__ import annotations

import pytest

from core.addresses import is_loopback, network_of, reached_at


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_the_addresses_of_one_network_count_as_one(address: str, network: str) -> None:
    assert network_of(address) == network


@pytest.mark.parametrize(
    ("host", "is_here"),
    [
        ("127.0.0.1", True),
        ("127.0.0.2", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("192.0.2.7", False),
        ("localhost.example", False),
        ("", False),
    ],
)
def test_what_is_this_machine(host: str, is_here: bool) -> None:
    assert is_loopback(host) is is_here


@pytest.mark.parametrize(
    ("bind", "host"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.2", "127.0.0.2"),
        ("192.0.2.7", "192.0.2.7"),
        ("0.0.0.0", "127.0.0.1"),
        ("", "127.0.0.1"),
        ("::", "[::1]"),
        ("2001:db8::7", "[2001:db8::7]"),
        ("lake.example", "lake.example"),
    ],
)
def test_a_listener_is_reached_where_it_listens(bind: str, host: str) -> None:
    assert reached_at(bind) == host
