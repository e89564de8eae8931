"""Server and client side of SASL PLAIN as Hive's clients speak it."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.hs2 import framing
from gateway.hs2.errors import ProtocolError

MECHANISM = b"PLAIN"
REFUSED = "Error validating the login"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a client claims. `authzid` is whom he wants to act as, usually empty."""

    username: str
    password: str = field(repr=False)
    authzid: str = ""


def parse_plain(payload: bytes) -> Credentials:
    """Read `authzid NUL user NUL password`."""
    parts = payload.split(b"\0")
    if len(parts) != 3:
        raise ProtocolError("the PLAIN response does not hold three parts")
    try:
        authzid, username, password = (part.decode() for part in parts)
    except UnicodeDecodeError:
        raise ProtocolError("the PLAIN response is not UTF-8") from None
    return Credentials(username, password, authzid)


def client_opening(username: str, password: str) -> bytes:
    """Return what a client sends at once: the mechanism and its initial response."""
    response = b"\0".join((b"", username.encode(), password.encode()))
    return framing.sasl_frame(framing.START, MECHANISM) + framing.sasl_frame(
        framing.OK, response
    )
