"""A server that speaks MySQL's protocol up to the login, and then answers otherwise."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable

import pytest

from catalog.sources.access import SourceAccess
from catalog.sources.mariadb import connect as mariadb
from core.errors import TerminalError
from tests.waiting import LIMIT_SECONDS

CAPABILITIES = 0x00FFF7FF | 1 << 19
OK = b"\x00\x00\x00\x02\x00\x00\x00"
ANSWERS = {
    "asks for a file": b"\xfb/etc/passwd",
    "no rows": OK,
    "a count of columns cut off": b"\xfc\x01",
    "nothing": b"",
}


def greeting() -> bytes:
    low, high = CAPABILITIES & 0xFFFF, CAPABILITIES >> 16
    return (
        b"\x0a8.0.36\x00"
        + struct.pack("<I", 7)
        + b"abcdefgh\x00"
        + struct.pack("<HBHH", low, 45, 2, high)
        + bytes([21])
        + bytes(10)
        + b"ijklmnopqrst\x00mysql_native_password\x00"
    )


def packet(number: int, body: bytes) -> bytes:
    return struct.pack("<I", len(body))[:3] + bytes([number]) + body


def serve(listener: socket.socket, answer: bytes) -> None:
    """One connection: greeting, login, and the same answer to every query."""
    client, _ = listener.accept()
    client.settimeout(LIMIT_SECONDS)
    with client, listener, contextlib.suppress(ConnectionError):
        client.sendall(packet(0, greeting()))
        client.recv(4096)
        client.sendall(packet(2, OK))
        while client.recv(4096):
            client.sendall(packet(1, answer))


@pytest.fixture
def rogue() -> Callable[[bytes], SourceAccess]:
    def start(answer: bytes) -> SourceAccess:
        listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=serve, args=(listener, answer), daemon=True).start()
        return SourceAccess(
            kind="mysql",
            host="127.0.0.1",
            port=listener.getsockname()[1],
            database="",
            username="reader",
            password="x",
            tls="off",
        )

    return start


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_an_odd_answer_is_no_defect_of_ours(
    rogue: Callable[[bytes], SourceAccess], answer: bytes
) -> None:
    access = rogue(answer)
    with pytest.raises(TerminalError) as failure:
        mariadb.connect(access, ["127.0.0.1"])
    assert failure.value.code == "not_mariadb"


@pytest.mark.parametrize("error", [ValueError, RuntimeError, IndexError, struct.error])
def test_rows_of_another_shape_are_no_defect_of_ours(error: type[Exception]) -> None:
    access = SourceAccess(
        kind="mysql", host="db", port=1, database="", username="x", password="x"
    )
    link = mariadb.new_link(access)
    with (
        pytest.raises(TerminalError) as failure,
        mariadb.statements(link, access),
    ):
        raise error("not enough values to unpack")
    assert failure.value.code == "not_mariadb"
