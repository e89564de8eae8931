"""Sending one message to a web address, signed or as a chat wants it.

The address is resolved anew for each attempt, every answer of the resolver is held
against the policy, and the connection goes to exactly that address: a name that changes
in between changes nothing. Redirects are not followed. Must not know rows.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import http.client
import ipaddress
import json
import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from catalog.networks import check_host, require_public
from catalog.sources.tls import ca_file
from core.errors import InvalidRequest, SluiceError
from core.sentences import Sentence
from ingest.alerts import chat
from ingest.alerts.rules import Answer

CONNECT_SECONDS: Final = 5.0
TOTAL_SECONDS: Final = 10.0
MOST_BODY: Final = 64 * 1024
MOST_REPLY: Final = 4096
PORTS: Final = {"http": 80, "https": 443}
SIGNATURE: Final = "v1"
# no URL holds it
PLACE_PARTS: Final = "\n"


@dataclass(frozen=True, slots=True)
class Egress:
    """Networks in CIDR notation; see `catalog.networks.require_public`."""

    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()


def check_url(url: str, egress: Egress) -> str:
    """The URL itself if messages may be sent there. A name is resolved when sending."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = 0
    is_plain = parts.scheme in PORTS and parts.hostname and port != 0
    if not is_plain or parts.username or parts.password or parts.fragment:
        raise _bad_url(
            Sentence("give https://host:port/path, without user and fragment")
        )
    if not url.isascii() or not url.isprintable() or " " in url:
        raise _bad_url(
            Sentence("letters outside ASCII and spaces must be percent-encoded")
        )
    host = check_host(str(parts.hostname), egress.denied)
    with contextlib.suppress(ValueError):
        address = str(ipaddress.ip_address(host))
        require_public(address, allowed=egress.allowed, denied=egress.denied)
    return url


def sign(secret: str, timestamp: int, body: bytes) -> str:
    """Value of `Sluice-Signature`: hex HMAC-SHA-256 of "<timestamp>.<body>"."""
    signed = f"{timestamp}.".encode() + body
    return (
        f"{SIGNATURE}={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"
    )


def send(
    url: str,
    secret: str,
    message: Mapping[str, Any],
    *,
    at: int,
    egress: Egress,
    seconds: float = TOTAL_SECONDS,
) -> Answer:
    """One attempt; never raises for what the other side or the network does.

    at: seconds since 1970, signed too, so that a receiver can refuse old ones.
    """
    body = _json(message)
    headers = {
        "Sluice-Delivery": str(message["delivery"]),
        "Sluice-Timestamp": str(at),
        "Sluice-Signature": sign(secret, at, body),
    }
    return post(url, body, headers, egress=egress, seconds=seconds)


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    egress: Egress,
    seconds: float = TOTAL_SECONDS,
    refusal: Callable[[bytes], str] = lambda _: "",
) -> Answer:
    """The same for any JSON. refusal: what the body of a good answer says against it,
    "" = nothing."""
    if len(body) > MOST_BODY:
        return Answer(
            error=Sentence(
                "the message has %(size)s bytes, more than the %(most)s that are sent",
                size=len(body),
                most=MOST_BODY,
            )
        )
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Sluice",
        "Connection": "close",
        **headers,
    }
    try:
        status, said = _post(
            urlsplit(url), body, headers, egress=egress, seconds=seconds
        )
    except SluiceError as error:
        return Answer(error=error.message)
    except TimeoutError:
        return Answer(
            error=Sentence("no answer within %(seconds)s s", seconds=f"{seconds:g}")
        )
    except ssl.SSLCertVerificationError as error:
        return Answer(
            error=Sentence(
                "its certificate is not accepted: %(why)s", why=error.verify_message
            )
        )
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Answer(error=str(error)[:300] or type(error).__name__)
    answer = _answer(status)
    return Answer(status, refusal(said)) if answer.is_delivered else answer


def to_chat(
    kind: str,
    place: str,
    message: chat.Payload,
    *,
    at: int,
    egress: Egress,
) -> Answer:
    """The same for the robot of a chat. place: see `chat_place`."""
    url, _, secret = place.partition(PLACE_PARTS)
    url, message = chat.signed(kind, url, secret, at, message)
    said = partial(chat.refusal, kind)
    return post(url, _json(message), {}, egress=egress, refusal=said)


def chat_place(url: str, secret: str) -> str:
    """Address and signing secret of a robot as one text, which is kept encrypted."""
    return f"{url}{PLACE_PARTS}{secret}"


def _json(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


def _post(
    parts: SplitResult,
    body: bytes,
    headers: Mapping[str, str],
    *,
    egress: Egress,
    seconds: float,
) -> tuple[int, bytes]:
    host, port = str(parts.hostname), parts.port or PORTS[parts.scheme]
    link = socket.create_connection(
        (_resolve(host, port, egress), port), CONNECT_SECONDS
    )
    link.settimeout(seconds)  # `CONNECT_SECONDS` until here
    # each byte that drips in would begin a socket's own time-out anew
    is_over = threading.Event()
    links = [link]
    guard = threading.Timer(seconds, _hang_up, [links, is_over])
    guard.daemon = True
    guard.start()
    try:
        if parts.scheme == "https":
            links.append(_with_tls(link, host))
            link = links[-1]
            link.do_handshake()  # type: ignore[attr-defined]
        web = http.client.HTTPConnection(host, port)
        web.sock = link
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        web.request("POST", path, body, {"Host": parts.netloc, **headers})
        with web.getresponse() as reply:
            found = reply.status, reply.read(MOST_REPLY)
        if is_over.is_set():
            # the end that we made is none of the reply's
            raise TimeoutError
    except (OSError, http.client.HTTPException):
        if is_over.is_set():
            raise TimeoutError from None
        raise
    finally:
        guard.cancel()
        link.close()
    return found


def _answer(status: int) -> Answer:
    if 200 <= status < 300:
        return Answer(status)
    if 300 <= status < 400:
        return Answer(status, Sentence("it redirects; give the address where it leads"))
    return Answer(status, Sentence("it answered %(status)s", status=status))


def _resolve(host: str, port: int, egress: Egress) -> str:
    """One permitted address; all of them have to be, lest luck decides."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror:
        raise InvalidRequest("the name '%(host)s' has no address", host=host) from None
    addresses = [str(entry[4][0]) for entry in found]
    for address in addresses:
        require_public(address, allowed=egress.allowed, denied=egress.denied)
    return addresses[0]


def _with_tls(link: socket.socket, host: str) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=ca_file())
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context.wrap_socket(
        link, server_hostname=host, do_handshake_on_connect=False
    )


def _hang_up(links: Sequence[socket.socket], is_over: threading.Event) -> None:
    """The last one is in use: TLS takes the socket over from the one below."""
    is_over.set()
    with contextlib.suppress(OSError):
        links[-1].shutdown(socket.SHUT_RDWR)


def _bad_url(why: str) -> InvalidRequest:
    return InvalidRequest(
        "that cannot be the address of a webhook: %(why)s",
        why=why,
        code="invalid_url",
        facts={"errors": [{"pointer": "/url", "detail": why}]},
    )
