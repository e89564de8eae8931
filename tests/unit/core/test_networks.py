"""Clients are told apart by what an address of theirs costs them."""

from __future__ import annotations

import pytest

from core.networks import network_of


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
