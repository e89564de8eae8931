"""Where a datasource may point to: a policy over addresses, so that a connection
form is no door into the machine's own network services.

Pure over text and addresses; the caller resolves a name once, asks
`require_allowed` for each address and connects to exactly that address.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from core.errors import InvalidRequest
from core.sentences import Sentence

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NO_HOST = Sentence("not a host name or an IP address")

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_NAT64_LOCAL = ipaddress.IPv6Network("64:ff9b:1::/48")
# ::1 and what is near it is no IPv4 address
_COMPATIBLE = ipaddress.IPv6Network("::/96")
_HOST_NAME = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
    r"(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?)*\.?"
)
# What the C library still reads as an IPv4 address: 127.1, 0x7f000001, 2130706433.
_NUMERIC = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)(\.(0[xX][0-9a-fA-F]+|\d+))*\.?")


def check_host(host: str, denied: Iterable[str]) -> str:
    """The host itself if it is well-formed and, as an address, not denied.

    denied: networks in CIDR notation. A name passes here; its addresses are
    checked when it is resolved.
    """
    is_bracketed = host.startswith("[") and host.endswith("]")
    text = host[1:-1] if is_bracketed else host
    try:
        address: Address = ipaddress.ip_address(text)
    except ValueError:
        if _NUMERIC.fullmatch(host) or not _HOST_NAME.fullmatch(host):
            raise _bad_host(host, _NO_HOST) from None
        return host
    if getattr(address, "scope_id", None):
        raise _bad_host(host, Sentence("zone identifiers are not accepted"))
    require_allowed(str(address), denied)
    return text


def require_allowed(address: str, denied: Iterable[str]) -> None:
    """InvalidRequest `network_denied` when the address lies in a denied network, or is
    none of one machine."""
    nets = [ipaddress.ip_network(network) for network in denied]
    for value in _forms(ipaddress.ip_address(address.partition("%")[0])):
        if value.is_unspecified or value.is_multicast:
            raise _denied(value, Sentence("it is the address of no machine"))
        for net in nets:
            if value in net:
                why = Sentence(
                    "%(network)s is in SLUICE_SOURCE_NETWORKS_DENIED", network=net
                )
                raise _denied(value, why)


def require_public(
    address: str, *, allowed: Iterable[str], denied: Iterable[str]
) -> None:
    """InvalidRequest `network_denied` unless the address is the internet's, or lies in
    one of the networks `allowed`; one in a network `denied` never passes.

    For messages that are sent automatically: an inner network must be allowed
    explicitly.
    """
    require_allowed(address, denied)
    given = ipaddress.ip_address(address.partition("%")[0])
    nets = [ipaddress.ip_network(network) for network in allowed]
    inner = [
        value
        for value in _forms(given)
        if not value.is_global and not any(value in net for net in nets)
    ]
    if not inner:
        return
    value = inner[0]
    raise InvalidRequest(
        "an alert may not be sent to %(address)s: it is no address of the internet",
        address=value,
        code="network_denied",
        hint="an administrator can add its network to SLUICE_ALERT_NETWORKS_ALLOWED",
        facts={"errors": [{"pointer": "/url", "detail": "network denied"}]},
    )


def _forms(address: Address) -> tuple[Address, ...]:
    """Where it leads: the IPv4 address inside mapped, 6to4, NAT64 and IPv4-compatible
    forms, and itself. The local NAT64 has two places for it (RFC 6052)."""
    if isinstance(address, ipaddress.IPv4Address):
        return (address,)
    number = int(address)
    last = ipaddress.IPv4Address(number & 0xFFFFFFFF)
    if inner := address.ipv4_mapped or address.sixtofour:
        return (inner,)
    if address in _NAT64:
        return (last,)
    if address in _NAT64_LOCAL:
        high, low = number >> 64 & 0xFFFF, number >> 40 & 0xFFFF
        return (last, ipaddress.IPv4Address(high << 16 | low))
    if address in _COMPATIBLE and number > 0xFFFF:
        return (last, address)
    return (address,)


def _denied(value: Address, why: Sentence) -> InvalidRequest:
    return InvalidRequest(
        "a datasource may not point to %(address)s",
        address=value,
        code="network_denied",
        hint=why,
        facts={"errors": [{"pointer": "/host", "detail": "network denied"}]},
    )


def _bad_host(host: str, why: Sentence) -> InvalidRequest:
    return InvalidRequest(
        "'%(host)s' cannot be a host: %(why)s",
        host=host[:100],
        why=why,
        code="invalid_host",
        hint="give a plain host name or address; the port is a field of its own",
        facts={"errors": [{"pointer": "/host", "detail": why}]},
    )
