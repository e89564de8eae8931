"""What reading a request costs, whatever its shape, and whose turn it is."""

from __future__ import annotations

from typing import Any

import pytest
from waitress.adjustments import Adjustments

from config import web_requests, web_server
from config.web_requests import Parser, Turns
from tests.cpu import cost_of

GET = b"GET / HTTP/1.1\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
HEAD = web_server.HEADER_BYTES - 1_000
READ = 8_192
REFUSED = {
    "one header of blanks": GET + b"a:" + b" " * HEAD + b"b\r\n\r\n",
    "a header of many lines": GET + b"a:\r\n" + b" \r\n" * (HEAD // 3) + b"\r\n",
    "many headers": GET + b"a:b\r\n" * (HEAD // 5) + b"\r\n",
    "chunks of one byte": CHUNKED + b"1\r\na\r\n" * 10_000,
    "empty lines between chunks": CHUNKED + b"\r\n" * 30_000,
    "a long line of a chunk": CHUNKED + b"1" * 60_000,
    "a long trailer": CHUNKED + b"0\r\n" + b"a: b\r\n" * 10_000,
}


def read(sent: bytes, at_once: int = READ) -> Parser:
    """As the loop of the server does, up to the end of the first request."""
    settings = Adjustments(
        max_request_header_size=web_server.HEADER_BYTES,
        max_request_body_size=web_server.BODY_BYTES,
    )
    parser = Parser(settings)
    for start in range(0, len(sent), at_once):
        piece = sent[start : start + at_once]
        while piece and not parser.completed:
            piece = piece[parser.received(piece) :]
    return parser


def half(sent: bytes) -> bytes:
    return sent[: len(sent) // 2]


@pytest.mark.parametrize("sent", REFUSED.values(), ids=REFUSED)
def test_what_would_hold_the_loop_is_refused_at_once(sent: bytes) -> None:
    cost = cost_of(lambda: read(half(sent)), lambda: read(sent))
    assert cost.is_linear, cost
    parser = read(sent)
    assert parser.completed
    assert parser.error.code == 400


TWO_LENGTHS = {
    "both": CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Length: 60\r\n\r\n"),
    "both, in other letters": b"GET / HTTP/1.1\r\nHost: x\r\ncontent-length : 60\r\n"
    b"TRANSFER-ENCODING: chunked\r\n\r\n",
    "of HTTP/1.0": CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0"),
    "of no version": CHUNKED.replace(b" HTTP/1.1", b""),
}


@pytest.mark.parametrize("head", TWO_LENGTHS.values(), ids=TWO_LENGTHS)
def test_a_body_with_two_ends_is_refused_and_the_connection_closed(head: bytes) -> None:
    parser = read(head + b"0\r\n\r\nGET /health/live HTTP/1.1\r\n\r\n")
    assert parser.completed
    assert parser.error.code == 400
    assert read(CHUNKED + b"0\r\n\r\n").error is None


def test_blanks_within_the_limit_are_read_in_time() -> None:
    run = b" " * web_requests.LONGEST_BLANK + b"b"
    sent = GET + b"a:" + run * (HEAD // len(run)) + b"\r\n\r\n"
    cost = cost_of(lambda: read(half(sent)), lambda: read(sent))
    assert cost.is_linear, cost


def test_empty_lines_before_a_request_are_none() -> None:
    parser = read(b"\r\n" * 100_000)
    assert not parser.completed
    parser = read(b"\r\n" * 10 + GET + b"a: b\r\n\r\n")
    assert (parser.completed, parser.headers) == (True, {"A": "b"})


@pytest.mark.parametrize("at_once", [1, 7, READ])
def test_a_body_in_chunks_is_read(at_once: int) -> None:
    content = bytes(range(256)) * 40
    chunks = [content[start : start + 200] for start in range(0, len(content), 200)]
    sent = [b"%x\r\n%b\r\n" % (len(one), one) for one in [b"[]", *chunks]]
    parser = read(CHUNKED + b"".join(sent) + b"0\r\n\r\n", at_once)
    assert (parser.completed, parser.error) == (True, None)
    assert parser.get_body_stream().read() == b"[]" + content


def test_a_chunk_leaves_what_is_sent_behind_it() -> None:
    parser = read(CHUNKED)
    body = b"2\r\n[]\r\n0\r\n\r\n"
    assert parser.received(body + GET) == len(body)
    assert parser.completed


def test_clients_have_turns() -> None:
    def client_of(task: Any) -> str:
        return str(task)[0]

    turns = Turns(client_of)
    for task in ("a1", "a2", "a3", "b1", "c1", "c2"):
        turns.append(task)
    assert len(turns) == 6
    first = [turns.popleft() for _ in range(2)]
    turns.append("d1")
    assert first == ["a1", "b1"]
    assert [turns.popleft() for _ in range(5)] == ["c1", "a2", "d1", "c2", "a3"]
    assert not turns
