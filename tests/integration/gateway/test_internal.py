"""The internal interface holds its limits against whoever finds the loopback port."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import secrets
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from gateway import internal
from gateway import response_memory_limit as reply_room
from gateway.arrow_rows import batch_of, json_rows
from gateway.limits import GatewayLimits
from tests.doubles.engine import FakeAnswer
from tests.integration.gateway.running import SECRET, RunningGateway
from tests.waiting import LIMIT_SECONDS

SECRET_LINE = f"Authorization: Bearer {SECRET}\r\n"


@pytest.fixture
def hasty(users, tmp_path, monkeypatch):
    """A gateway whose internal interface waits for a moment only: long enough that a
    test on a busy machine sends what it has."""
    monkeypatch.setattr(internal, "IDLE_SECONDS", 1.0)
    running = RunningGateway(tmp_path)
    yield running
    running.close()


def connected(gateway) -> socket.socket:
    facts = json.loads(gateway.internal_file.read_text())
    return socket.create_connection((facts["host"], facts["port"]), timeout=30)


def status_of(reply: bytes) -> int:
    return int(reply.split(b" ", 2)[1])


def test_a_socket_that_sends_nothing_is_closed(hasty):
    with connected(hasty) as silent:
        assert silent.recv(1) == b""


def test_a_request_line_that_never_ends_is_hung_up_on(hasty):
    with connected(hasty) as slow:
        slow.sendall(b"GET /state HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        assert slow.recv(1) == b""


def test_a_body_that_does_not_come_is_not_waited_for(hasty):
    head = "POST /statements HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
    with connected(hasty) as slow:
        slow.sendall(f"{head}{SECRET_LINE}X-Sluice-Principal: ann\r\n\r\n{{".encode())
        reply = slow.recv(65536)
    assert status_of(reply) == 400
    assert b"too_slow" in reply


def test_a_connection_that_rests_between_two_requests_is_closed(hasty):
    with connected(hasty) as resting:
        resting.sendall(f"GET /state HTTP/1.1\r\nHost: x\r\n{SECRET_LINE}\r\n".encode())
        received = b""
        while part := resting.recv(65536):
            received += part
    assert status_of(received) == 200


@pytest.mark.parametrize(
    "lines",
    [
        f"X-Long: {'x' * (internal.MAX_HEADER + 1)}\r\n",
        "".join(f"X-{n}: x\r\n" for n in range(internal.MAX_HEADERS + 1)),
    ],
)
def test_headers_are_bounded_in_size_and_number(gateway, lines):
    with connected(gateway) as greedy:
        greedy.sendall(f"GET /state HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode())
        assert status_of(greedy.recv(65536)) == 400


def exchange(gateway, method, path, *, body=None, principal="ann"):
    facts = json.loads(gateway.internal_file.read_text())
    connection = http.client.HTTPConnection(facts["host"], facts["port"], timeout=30)
    headers = {"Authorization": f"Bearer {SECRET}", "X-Sluice-Principal": principal}
    try:
        connection.request(method, path, body=body, headers=headers)
        reply = connection.getresponse()
        # of pages only what is said of them
        return reply.status, json.loads(reply.read().partition(b"\n")[0])
    finally:
        connection.close()


def test_a_body_is_bounded(gateway):
    large = b'{"sql": "' + b"x" * internal.MAX_BODY + b'"}'
    status, problem = exchange(gateway, "POST", "/statements", body=large)
    assert (status, problem["message"]) == (400, "the body is too large")


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/", None, 404),
        ("PUT", "/statements/x", None, 404),
        ("POST", "/statements/x/results", None, 404),
        ("POST", "/statements", b"{", 400),
        ("POST", "/statements", b"[]", 400),
        ("POST", "/statements", b"{}", 400),
        ("GET", "/statements/x?wait_seconds=soon", None, 404),
    ],
)
def test_a_wrong_request_is_answered_as_a_problem(gateway, method, path, body, status):
    found, problem = exchange(gateway, method, path, body=body)
    assert found == status
    assert {"code", "message", "hint"} <= problem.keys()


def test_statements_need_a_principal(gateway):
    status, problem = exchange(gateway, "GET", "/statements/x", principal="")
    assert (status, problem["message"]) == (400, "the principal is missing")


@pytest.fixture
def narrow(users, tmp_path):
    """A gateway with room for one slice of a page on its way."""
    running = RunningGateway(tmp_path, GatewayLimits(reply_bytes=internal.SLICE))
    # made here: a step of the gateway's loop is measured
    wide = secrets.token_hex(4_000_000)
    running.engine.answers = lambda sql: FakeAnswer(rows=[(wide,)])
    yield running
    running.close()


@pytest.fixture
def pool():
    with ThreadPoolExecutor(1) as made:
        yield made


def page_asked_for(gateway, path: str) -> socket.socket:
    """A connection whose reply nobody reads."""
    facts = json.loads(gateway.internal_file.read_text())
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.settimeout(30)
    made.connect((facts["host"], facts["port"]))
    head = f"GET {path} HTTP/1.1\r\nHost: x\r\n{SECRET_LINE}X-Sluice-Principal: ann"
    made.sendall(f"{head}\r\n\r\n".encode())
    assert made.recv(15) == b"HTTP/1.1 200 OK"
    return made


def wide_result(gateway) -> str:
    asked = json.dumps({"sql": "wide", "wait_seconds": 20}).encode()
    status, statement = exchange(gateway, "POST", "/statements", body=asked)
    assert (status, statement["state"]) == (200, "FINISHED"), statement
    return f"/statements/{statement['id']}/results"


def test_rows_are_sent_as_they_lie(gateway):
    gateway.engine.answers = lambda sql: FakeAnswer(rows=[("ü",), (None,), ("\n",)])
    path = wide_result(gateway)
    (file,) = gateway.gateway.statements._directory.iterdir()
    lying = file.read_bytes()
    with connected(gateway) as reading:
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\n{SECRET_LINE}Connection: close\r\n"
        reading.sendall(f"{head}X-Sluice-Principal: ann\r\n\r\n".encode())
        reply = b"".join(iter(lambda: reading.recv(65536), b""))
    said, _, page = reply.partition(b"\r\n\r\n")[2].partition(b"\n")
    assert page == lying
    assert json_rows(batch_of(page)) == [["ü"], [None], ["\n"]]
    assert json.loads(said) == {
        "columns": [{"name": "Result", "type": "string"}],
        "first_row": 0,
        "rows": 3,
        "sizes": [len(lying)],
        "next_page": None,
        "previous_page": None,
    }


def test_replies_that_are_not_read_hold_a_bounded_number_of_bytes(
    narrow, monkeypatch, pool
):
    path = wide_result(narrow)
    room = narrow.gateway.internal._room
    with page_asked_for(narrow, path):
        assert internal.SLICE < room.held < internal.SLICE + 1000
        monkeypatch.setattr(reply_room, "WAIT_SECONDS", 0.05)
        status, problem = exchange(narrow, "GET", path)
        assert (status, problem["code"]) == (503, "too_many_waiting")
        # what is no page is there already, and waits for nothing
        assert exchange(narrow, "GET", path.removesuffix("/results"))[0] == 200
        monkeypatch.setattr(reply_room, "WAIT_SECONDS", 30)
        waiting = pool.submit(exchange, narrow, "GET", path)
        while not room._turns:
            narrow.call(asyncio.sleep(0.01))
    # the first one has hung up: its room is the next one's
    status, body = waiting.result(LIMIT_SECONDS)
    assert (status, body["rows"]) == (200, 1)
    assert body["sizes"][0] > 4_000_000
    assert room.held == 0


def test_a_reply_that_nobody_reads_ends_its_connection(narrow, monkeypatch):
    path = wide_result(narrow)
    room = narrow.gateway.internal._room
    monkeypatch.setattr(internal, "IDLE_SECONDS", 0.3)
    with page_asked_for(narrow, path) as silent:
        while room.held:
            narrow.call(asyncio.sleep(0.01))
        received = 0
        with contextlib.suppress(ConnectionError):
            while part := silent.recv(1 << 20):
                received += len(part)
    assert received < 4_000_000
    monkeypatch.setattr(internal, "IDLE_SECONDS", 60.0)
    assert exchange(narrow, "GET", "/statements/x")[0] == 404
