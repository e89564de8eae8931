"""A connection as a table of bytes to events and back, whole and in pieces."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import IllegalTransition
from gateway.hs2 import calls, framing, messages
from gateway.hs2.connection import (
    CallReceived,
    CallRefused,
    LoginRequested,
    ServerConnection,
)
from gateway.hs2.errors import LimitExceeded, ProtocolError

LOGIN = framing.client_opening("ann", "pw")
OPEN = calls.encode_call(messages.OpenSession(client_protocol=9), sequence=1)
CLOSE = calls.encode_call(messages.CloseSession(), sequence=2)


def framed(body: bytes) -> bytes:
    return struct.pack("!I", len(body)) + bytes(body)


def walk(connection: ServerConnection, pieces: list[bytes]) -> list[object]:
    events = []
    for piece in pieces:
        events += list(connection.receive(piece))
        if connection.state == "JUDGING":
            connection.accept_login()
            events += list(connection.receive(b""))
    return events


STREAM = LOGIN + framed(OPEN) + framed(CLOSE)
EVENTS = [
    LoginRequested(framing.Credentials("ann", "pw")),
    CallReceived("OpenSession", 1, messages.OpenSession(client_protocol=9)),
    CallReceived("CloseSession", 2, messages.CloseSession()),
]


def test_whole_and_byte_by_byte_give_the_same_events():
    assert walk(ServerConnection(), [STREAM]) == EVENTS
    assert walk(
        ServerConnection(), [STREAM[i : i + 1] for i in range(len(STREAM))]
    ) == (EVENTS)


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_any_split_gives_the_same_events(cuts):
    edges = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[a:b] for a, b in pairwise(edges)]
    assert walk(ServerConnection(), pieces) == EVENTS


@pytest.mark.parametrize("status", [framing.OK, framing.COMPLETE])
def test_the_initial_response_may_come_as_ok_or_complete(status):
    opening = framing.sasl_frame(framing.START, b"PLAIN")
    opening += framing.sasl_frame(status, b"\0ann\0pw")
    connection = ServerConnection()
    assert list(connection.receive(opening)) == EVENTS[:1]
    assert connection.accept_login() == b"\x05\0\0\0\0"


def test_a_refused_login_says_what_drivers_look_for():
    connection = ServerConnection()
    list(connection.receive(LOGIN))
    answer = connection.refuse_login()
    assert answer[0] == framing.BAD
    assert b"Error validating the login" in answer
    assert connection.state == "CLOSED"
    with pytest.raises(IllegalTransition):
        connection.accept_login()


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"GET /cliservice HTTP/1.1\r\n", ProtocolError),
        (b"\x80\x01\x00\x01\x00\x00\x00\x0bOpenSession", ProtocolError),
        (framing.sasl_frame(framing.START, b"GSSAPI"), ProtocolError),
        (framing.sasl_frame(framing.OK, b"\0a\0b"), ProtocolError),
        (b"\x01\x7f\xff\xff\xff", LimitExceeded),
        (framing.sasl_frame(1, b"PLAIN") + framing.sasl_frame(2, b"x"), ProtocolError),
        (
            framing.sasl_frame(1, b"PLAIN") + framing.sasl_frame(2, b"\0\xff\0x"),
            ProtocolError,
        ),
        (framing.sasl_frame(framing.BAD, b""), ProtocolError),
    ],
)
def test_wrong_openings_end_the_connection(data, error):
    connection = ServerConnection()
    with pytest.raises(error):
        list(connection.receive(data))
    assert connection.state == "CLOSED"
    assert list(connection.receive(LOGIN)) == []


def test_bytes_before_the_login_is_judged_are_bounded():
    connection = ServerConnection()
    list(connection.receive(LOGIN))
    with pytest.raises(LimitExceeded):
        list(connection.receive(b"x" * 400_000))


def test_an_oversized_message_is_refused_from_its_length_alone():
    connection = ServerConnection(max_request=100)
    with pytest.raises(LimitExceeded, match="at most 100"):
        walk(connection, [LOGIN + struct.pack("!I", 101)])


@pytest.mark.parametrize("name", ["GetLog", "CloseImpalaOperation", "nope"])
def test_an_unknown_method_is_answered_so_and_the_connection_goes_on(name):
    data = calls._begin(name, calls.CALL, 5) + b"\0"
    connection = ServerConnection()
    events = walk(connection, [LOGIN + framed(data) + framed(CLOSE)])
    assert isinstance(events[1], CallRefused)
    fault = calls.encode_fault(
        name, f"Invalid method name: '{name}'", kind=1, sequence=5
    )
    assert events[1].answer == fault
    assert isinstance(events[2], CallReceived)


def test_a_malformed_argument_is_answered_and_the_connection_goes_on():
    data = calls._begin("OpenSession", calls.CALL, 5) + b"\x0c\x00\x01\x63"
    events = walk(ServerConnection(), [LOGIN + framed(data) + framed(CLOSE)])
    assert isinstance(events[1], CallRefused)
    assert isinstance(events[2], CallReceived)


@settings(max_examples=300)
@given(data=st.data())
def test_mutated_messages_never_crash_nor_hoard(data):
    bodies = [
        bytes(OPEN),
        bytes(CLOSE),
        bytes(
            calls.encode_call(
                messages.ExecuteStatement(statement="select 1", overlay={"a": "b"}),
                sequence=3,
            )
        ),
    ]
    body = bytearray(data.draw(st.sampled_from(bodies)))
    for _ in range(data.draw(st.integers(1, 6))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))
    stream = LOGIN + framed(body[:cut])
    connection = ServerConnection()
    try:
        events = walk(connection, [stream])
    except ProtocolError:
        assert connection.state == "CLOSED"
        return
    assert all(isinstance(e, CallReceived | CallRefused) for e in events[1:])
    assert len(connection._frames) == 0


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_random_bytes_never_crash(data):
    connection = ServerConnection()
    try:
        walk(connection, [data])
    except ProtocolError:
        assert connection.state == "CLOSED"
    assert len(connection._frames) <= len(data)
