"""Control channels: what is a message, who may send one, and when a peer is silent."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from io import FileIO
from typing import Any

import pytest

from core.control_channel.channel import Channel, PipeStream, Silence
from core.control_channel.framing import (
    MalformedMessage,
    MessageBuffer,
    decode,
    encode,
    has_secret,
)

LIMIT = 32
A, B = {"type": "a"}, {"type": "b"}
OVERSIZE = b'{"type": "' + b"x" * LIMIT + b'"}\n'
GARBAGE = [
    b"noise of a library\n",
    b"\n",
    b"[1, 2]\n",
    b"null\n",
    b'"text"\n',
    b'{"type": \n',
    b"\xff\xfe\n",
    b"[" * LIMIT + b"\n",
    OVERSIZE,
]


def heard(buffer: MessageBuffer) -> list[dict[str, Any]]:
    found = []
    while (message := buffer.next()) is not None:
        found.append(message)
    return found


# ------------------------------------------------------------------------ framing


@pytest.mark.parametrize(
    ("pieces", "messages"),
    [
        ([encode(A)], [A]),
        ([encode(A) + encode(B)], [A, B]),
        ([encode(A)[:5], encode(A)[5:]], [A]),
        ([encode(A)[:5]], []),
        ([encode(A) + encode(B)[:-1], b"\n" + encode(A)], [A, B, A]),
        ([bytes([byte]) for byte in encode(A) + encode(B)], [A, B]),
        ([b'{"type":"a"}\r\n'], [A]),
        ([], []),
    ],
)
def test_pieces_become_messages(
    pieces: list[bytes], messages: list[dict[str, Any]]
) -> None:
    buffer, found = MessageBuffer(limit=LIMIT), []
    for piece in pieces:
        buffer.feed(piece)
        found += heard(buffer)
    assert found == messages


@pytest.mark.parametrize("size", [1, 7, 4096])
@pytest.mark.parametrize("garbage", GARBAGE)
def test_what_is_no_message_is_skipped(garbage: bytes, size: int) -> None:
    wire = encode(A) + garbage + encode(B)
    buffer, found = MessageBuffer(limit=LIMIT), []
    for start in range(0, len(wire), size):
        buffer.feed(wire[start : start + size])
        found += heard(buffer)
    assert found == [A, B]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_what_is_no_message_is_refused_where_none_may_come(garbage: bytes) -> None:
    buffer = MessageBuffer(limit=LIMIT, is_strict=True)
    buffer.feed(encode(A) + garbage)
    assert buffer.next() == A
    with pytest.raises(MalformedMessage):
        buffer.next()


@pytest.mark.parametrize("is_strict", [False, True])
def test_a_message_without_an_end_takes_no_more_memory_than_the_limit(
    is_strict: bool,
) -> None:
    buffer = MessageBuffer(limit=LIMIT, is_strict=is_strict)
    for _ in range(100):
        buffer.feed(b"x" * LIMIT)
        try:
            assert buffer.next() is None
        except MalformedMessage:
            assert is_strict
            return
        assert len(buffer._bytes) <= LIMIT
    buffer.feed(b'"}\n' + encode(A))
    assert heard(buffer) == [A]


@pytest.mark.parametrize("missing", [-1, 0, 1])
def test_reader_and_sender_have_the_same_limit(missing: int) -> None:
    message = {"type": "x" * 10}
    limit = len(encode(message)) - missing
    buffer = MessageBuffer(limit=limit, is_strict=True)
    buffer.feed(encode(message))
    if missing > 0:
        with pytest.raises(MalformedMessage, match="too large"):
            encode(message, limit=limit)
        with pytest.raises(MalformedMessage):
            buffer.next()
    else:
        assert encode(message, limit=limit)
        assert buffer.next() == message


@pytest.mark.parametrize(
    "message",
    [
        {"type": "log", "message": "two\nlines\r\u2028"},
        {"type": "log", "message": "中文 \U0001f600"},
        {"type": "log", "message": "half \ud800"},  # of a name that is no UTF-8
        {"type": "run", "spec": {"nested": [{}, [None, 1.5, True]]}},
    ],
)
def test_a_message_is_one_line_whatever_it_says(message: dict[str, Any]) -> None:
    assert encode(message).count(b"\n") == 1
    assert b"\r" not in encode(message)
    assert decode(encode(message)) == message


def test_deep_garbage_is_refused() -> None:
    with pytest.raises(MalformedMessage):
        decode(b"[" * 1_000_000)


@pytest.mark.parametrize(
    ("greeting", "is_known"),
    [
        ({"secret": "start-secret"}, True),
        ({"secret": "start-secreT"}, False),
        ({"secret": "start-secret "}, False),
        ({"secret": ""}, False),
        ({}, False),
        ({"secret": None}, False),
        ({"secret": ["start-secret"]}, False),
        ({"secret": "stärt"}, False),
        ({"secret": "\ud800"}, False),
    ],
)
def test_the_secret_of_a_greeting(greeting: dict[str, Any], is_known: bool) -> None:
    assert has_secret(greeting, "start-secret") is is_known


# ------------------------------------------------------------------- over streams


def pipes() -> tuple[PipeStream, PipeStream]:
    (read_a, write_a), (read_b, write_b) = os.pipe(), os.pipe()
    here = PipeStream(FileIO(read_a, "rb"), FileIO(write_b, "wb"))
    return here, PipeStream(FileIO(read_b, "rb"), FileIO(write_a, "wb"))


@pytest.fixture
def streams() -> Iterator[tuple[PipeStream, PipeStream]]:
    made = pipes()
    yield made
    for one in made:
        one.close()


def test_messages_go_both_ways_until_one_hangs_up(streams: Any) -> None:
    here, there = (Channel(stream) for stream in streams)
    here.send(A)
    here.send({"type": "large", "text": "x" * 1_000})
    there.send(B)
    listened = there.messages()
    assert next(listened) == A
    assert next(listened)["type"] == "large"
    assert next(here.messages()) == B
    here.close()
    assert list(listened) == []


def test_many_threads_send_whole_messages(streams: Any) -> None:
    here, there = (Channel(stream) for stream in streams)
    texts = [f"{number}" * 5_000 for number in range(8)]

    def send(text: str) -> None:
        for _ in range(20):
            here.send({"type": "log", "text": text})

    threads = [threading.Thread(target=send, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    listened = there.messages()
    found = [next(listened)["text"] for _ in range(20 * len(texts))]
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(texts * 20)


def test_a_peer_that_is_gone_is_an_oserror(streams: Any) -> None:
    here, there = (Channel(stream) for stream in streams)
    there.close()

    def send_much() -> None:
        for _ in range(100):
            here.send({"type": "ping", "text": "x" * 100_000})

    with pytest.raises(OSError):  # noqa: PT011 - whichever the stream has for it
        send_much()


def test_a_closed_pipe_is_broken() -> None:
    here, there = pipes()
    here.close()
    with pytest.raises(BrokenPipeError):
        here.write(b"x")
    with pytest.raises(BrokenPipeError):
        here.read(1)
    there.close()


# ------------------------------------------------------------------------ silence


def test_silence_counts_from_the_last_sign() -> None:
    now = [100.0]
    silence = Silence(clock=lambda: now[0])
    assert silence.seconds == 0
    now[0] += 7
    assert silence.seconds == 7
    silence.note_heard()
    now[0] += 2
    assert silence.seconds == 2


def test_any_byte_ends_the_silence_of_a_channel(streams: Any) -> None:
    now = [100.0]
    here, there = streams
    channel = Channel(there, silence=Silence(clock=lambda: now[0]))
    now[0] += 60
    assert channel.silence.seconds == 60
    here.write(b"noise\n" + encode(A))
    assert next(channel.messages()) == A
    assert channel.silence.seconds == 0
