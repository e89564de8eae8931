"""The internal interface holds its limits against whoever finds the loopback port."""

from __future__ import annotations

import http.client
import json
import socket

import pytest

from gateway import internal
from tests.integration.gateway.running import SECRET, RunningGateway

SECRET_LINE = f"Authorization: Bearer {SECRET}\r\n"


@pytest.fixture
def hasty(users, tmp_path, monkeypatch):
    """A gateway whose internal interface waits for a moment only."""
    monkeypatch.setattr(internal, "IDLE_SECONDS", 0.3)
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
        return reply.status, json.loads(reply.read())
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
