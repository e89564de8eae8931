"""What an address tells: whom it counts as, and whether it is this machine."""

from __future__ import annotations

import functools
import ipaddress

# what one customer of a provider is given: its addresses cost nothing
_ONE_NETWORK = 64
# a listener on every address is reached on loopback, too
_OF_ALL = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


@functools.lru_cache(maxsize=4096)
def network_of(address: str) -> str:
    """The address itself; of IPv6 the network that one customer is given."""
    try:
        known = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if known.version == 4:
        return address
    if known.ipv4_mapped:
        return str(known.ipv4_mapped)
    return str(ipaddress.ip_network((known, _ONE_NETWORK), strict=False))


def reached_at(bind: str) -> str:
    """The host of URLs by which this machine reaches a listener bound to `bind`."""
    host = _OF_ALL.get(bind, bind)
    return f"[{host}]" if ":" in host else host


def is_loopback(host: str) -> bool:
    """Whether what is sent there stays on this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
