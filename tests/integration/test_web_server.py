"""The web process's server, as a process of its own: slow clients hold no thread."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import BinaryIO

import pytest
from waitress.adjustments import Adjustments

from catalog.api.views import LARGEST_BODY
from config import web_server
from tests.ports import free_port
from tests.waiting import LIMIT_SECONDS, wait_for

ROOT = Path(__file__).resolve().parents[2]
SERVER = """
import sys, threading, time
from config.web_server import serve

held = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(1), held.set()), daemon=True).start()

def stream():
    try:
        while True:
            yield b"event"
            time.sleep(0.01)
    finally:
        print("closed", flush=True)

unread = []

def flood():
    try:
        while True:
            yield bytes(1_000_000)
    finally:
        print("hung up", flush=True)

def application(environ, start):
    path = environ["PATH_INFO"]
    if path == "/stream":
        start("200 OK", [])
        return stream()
    if path == "/flood":
        unread.append(environ["sluice.hang_up"])
        start("200 OK", [])
        return flood()
    if path == "/hang-up":
        unread.pop()()
    if path == "/slow":
        print("at work", flush=True)
        time.sleep(0.5)
    if path == "/held":
        held.wait()
    body = bytes(8_000_000 if path == "/large" else 2)
    if path == "/scheme":
        body = environ["wsgi.url_scheme"].encode()
    if path == "/client":
        body = environ["REMOTE_ADDR"].encode()
    start("200 OK", [("Content-Length", str(len(body)))])
    return [body]

serve(application, "127.0.0.1", int(sys.argv[1]), proxy=sys.argv[2])
"""
# The same, telling which requests wait for a thread and whose gets one.
TELLING = """
from config import web_requests, web_server

class Told(web_requests.Turns):
    def append(self, task):
        super().append(task)
        print("waits", flush=True)

    def popleft(self):
        task = super().popleft()
        print(task.addr[0], flush=True)
        return task

web_server.Turns = Told
"""
HALVES = {
    "no byte": b"",
    "half a head": b"GET / HTTP/1.1\r\nHost: x\r\n",
    "half a body": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc",
    "an unread reply": b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n",
    "unread replies to requests sent ahead": b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n"
    * 5,
    "an end that is not closed": b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n",
}


class Server:
    def __init__(self, proxy: str = "", *, prelude: str = "") -> None:
        self.address = ("127.0.0.1", free_port())
        self.said: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-c", prelude + SERVER, str(self.address[1]), proxy],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        wait_for(self._is_up, "the server to listen")

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        return socket.create_connection(
            self.address, timeout=10, source_address=(source, 0)
        )

    def hear(self, word: str, times: int = 1) -> None:
        """Read what it says until the word came so many times."""
        assert self.process.stdout
        while self.said.count(word) < times:
            self.said.append(self.process.stdout.readline().strip())

    def let_go(self) -> None:
        """Let requests of /held end."""
        assert self.process.stdin
        self.process.stdin.write("!")
        self.process.stdin.flush()

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        host, port = self.address
        link = http.client.HTTPConnection(host, port, timeout=10)
        link.request("GET", path, headers=headers)
        reply = link.getresponse()
        body = reply.status, reply.read()
        link.close()
        return body

    def _is_up(self) -> bool:
        assert self.process.poll() is None
        try:
            self.connect().close()
        except OSError:
            return False
        return True


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    running = Server(getattr(request, "param", ""))
    with running.process:
        try:
            yield running
        finally:
            running.process.kill()


@pytest.mark.parametrize("sent", HALVES.values(), ids=HALVES)
def test_slow_clients_hold_no_thread(server: Server, sent: bytes) -> None:
    """More of them than there are threads; nobody has to log in for that."""
    with ExitStack() as slow:
        for _ in range(web_server.THREADS + 4):
            link = slow.enter_context(server.connect())
            link.sendall(sent)
        for _ in range(20):
            assert server.get("/") == (200, bytes(2))


def test_a_large_body_is_refused_before_it_is_read(server: Server) -> None:
    assert web_server.BODY_BYTES > LARGEST_BODY
    with server.connect() as link:
        length = web_server.BODY_BYTES + 1
        link.sendall(f"POST / HTTP/1.1\r\nContent-Length: {length}\r\n\r\n".encode())
        assert b" 413 " in link.recv(100)


def test_whoever_fills_the_connections_keeps_nobody_out(server: Server) -> None:
    """Of the address that has most, the one that rests longest goes."""
    with ExitStack() as kept:
        elsewhere = kept.enter_context(server.connect(source="127.0.0.2"))
        idle = [
            kept.enter_context(server.connect()) for _ in range(web_server.CONNECTIONS)
        ]
        assert server.get("/") == (200, bytes(2))
        assert idle[0].recv(1) == b""
        elsewhere.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert elsewhere.recv(100).startswith(b"HTTP/1.1 200 ")


def body_of(stream: BinaryIO) -> bytes:
    length = 0
    while line := stream.readline().strip():
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return stream.read(length)


def test_requests_sent_ahead_are_answered_in_order(server: Server) -> None:
    paths = ["/scheme", "/large", "/client", "/"]
    with server.connect() as link:
        for path in paths:
            link.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        with link.makefile("rb") as stream:
            found = [body_of(stream) for _ in paths]
    assert found == [b"http", bytes(8_000_000), b"127.0.0.1", bytes(2)]


def test_who_asks_without_end_has_one_turn_of_many() -> None:
    """Requests of one address that wait for a thread, before one of another."""
    server = Server(prelude=TELLING)
    with server.process, ExitStack() as kept:
        kept.callback(server.process.kill)
        many = web_server.THREADS + 8
        for _ in range(many):
            link = kept.enter_context(server.connect("127.0.0.2"))
            link.sendall(b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n")
        server.hear("waits", many)
        server.hear("127.0.0.2", web_server.THREADS)
        other = kept.enter_context(server.connect())
        other.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        server.hear("waits", many + 1)
        server.let_go()
        server.hear("127.0.0.2", many)
        server.hear("127.0.0.1")
        begun = [line for line in server.said if line != "waits"]
        assert begun.index("127.0.0.1") == web_server.THREADS + 1


def test_nothing_is_done_for_a_client_that_left() -> None:
    """A thousand requests of a client that had hung up held all threads for a minute."""
    server = Server(prelude=TELLING)
    with server.process, ExitStack() as kept:
        kept.callback(server.process.kill)
        for _ in range(web_server.THREADS):
            link = kept.enter_context(server.connect("127.0.0.2"))
            link.sendall(b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n")
        server.hear("127.0.0.2", web_server.THREADS)
        for ends in ("127.0.0.3", "127.0.0.4"):
            with server.connect(ends) as link:
                link.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
                server.hear("waits", server.said.count("waits") + 1)
                if ends == "127.0.0.4":
                    server.let_go()
                    assert b"200 OK" in link.recv(100)
        server.hear("127.0.0.3")
        server.hear("at work")
        assert server.get("/client")[0] == 200
        server.hear("127.0.0.1")
        assert server.said.count("at work") == 1


def test_a_request_sent_ahead_in_pieces_is_read_as_one(server: Server) -> None:
    with server.connect() as link:
        link.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\nGET /cli")
        with link.makefile("rb") as stream:
            assert body_of(stream) == bytes(2)
            link.sendall(b"ent HTTP/1.1\r\nHost: x\r\n\r\n")
            assert body_of(stream) == b"127.0.0.1"


def is_closed(link: socket.socket) -> bool:
    link.setblocking(False)
    try:
        return not link.recv(1)
    except ConnectionError:
        return True
    except BlockingIOError:
        return False


def test_bodies_of_one_address_are_bounded_together(server: Server) -> None:
    """They are read before anybody is asked who he is; others go on."""
    length = web_server.BODY_BYTES - 1_000
    head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode()
    with ExitStack() as kept:
        other = kept.enter_context(server.connect(source="127.0.0.2"))
        other.sendall(head + bytes(length - 1))
        links = []
        for _ in range(web_server.BODIES_BYTES // length + 2):
            links.append(kept.enter_context(server.connect()))
            with suppress(ConnectionError):
                links[-1].sendall(head + bytes(length - 1))
            assert server.get("/") == (200, bytes(2))
        assert any(map(is_closed, links))
        other.sendall(b"0")
        assert other.recv(100).startswith(b"HTTP/1.1 200 ")


def test_replies_that_are_not_read_are_bounded_together(server: Server) -> None:
    """One user left 900 replies of 0.8 MB unread: the web process had 1.1 GB."""
    asked = b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    with ExitStack() as kept:
        other = kept.enter_context(server.connect(source="127.0.0.2"))
        other.sendall(asked)
        links = []
        for _ in range(web_server.REPLIES_BYTES // 2**21):
            links.append(kept.enter_context(server.connect()))
            links[-1].sendall(asked)
        assert server.get("/") == (200, bytes(2))
        whole = sum(body_of(link.makefile("rb")) == bytes(8_000_000) for link in links)
        assert whole < len(links)
        with other.makefile("rb") as stream:
            assert body_of(stream) == bytes(8_000_000)


def test_nothing_is_kept_of_a_reply_that_was_sent() -> None:
    """It was kept until the connection's next reply, or its end half a minute later."""
    ours, theirs = socket.socketpair()
    adjusted = Adjustments(outbuf_overflow=2**20)
    told = SimpleNamespace(active_channels={}, uncounted_bytes=0, pull_trigger=int)
    with ours, theirs:
        ours.setblocking(False)
        channel = web_server.Channel(told, ours, ("127.0.0.1", 1), adjusted, map={})
        channel.write_soon(bytes(900_000))
        while channel.total_outbufs_len:
            theirs.recv(2**20)
            channel.handle_write()
        (kept,) = channel.outbufs
        assert kept.getfile().seek(0, os.SEEK_END) == 0
    assert told.uncounted_bytes == 900_000


def test_nothing_is_served_behind_a_body_with_two_ends(server: Server) -> None:
    with server.connect() as link:
        head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 60\r\n"
        body = b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        link.sendall(head + body + b"GET /client HTTP/1.1\r\nHost: x\r\n\r\n")
        with link.makefile("rb") as stream:
            answer = stream.read()  # up to the end: the connection is closed
    assert b" 400 " in answer.splitlines()[0]
    assert answer.count(b"HTTP/1.") == 1


def test_a_large_head_is_refused(server: Server) -> None:
    with server.connect() as link:
        padding = b"x" * web_server.HEADER_BYTES
        link.sendall(b"GET / HTTP/1.1\r\nA: " + padding + b"\r\n\r\n")
        assert b" 431 " in link.recv(100)


def test_a_proxy_of_this_machine_tells_of_tls(server: Server) -> None:
    assert server.get("/scheme") == (200, b"http")
    assert server.get("/scheme", **{"X-Forwarded-Proto": "https"}) == (200, b"https")


@pytest.mark.parametrize(
    ("server", "client"),
    [("", b"127.0.0.1"), ("127.0.0.2", b"127.0.0.1"), ("127.0.0.1", b"192.0.2.9")],
    indirect=["server"],
    ids=["none named", "another named", "named"],
)
def test_only_the_named_proxy_says_who_asks(server: Server, client: bytes) -> None:
    """By what it added itself: what stood there before may be the client's own."""
    told = {"X-Forwarded-For": "10.0.0.1, 192.0.2.9"}
    assert server.get("/client", **told) == (200, client)


def test_a_stream_arrives_as_it_is_made_and_ends_with_its_client(
    server: Server,
) -> None:
    with server.connect() as link:
        link.sendall(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
        read = b""
        while b"event" not in read:
            read += link.recv(100)
    server.hear("closed")


def test_what_a_client_does_not_read_can_be_ended(server: Server) -> None:
    with server.connect() as link:
        link.sendall(b"GET /flood HTTP/1.1\r\nHost: x\r\n\r\n")
        assert link.recv(1)
        assert server.get("/hang-up") == (200, bytes(2))
        server.hear("hung up")


def test_what_was_begun_is_answered_before_the_end(server: Server) -> None:
    with server.connect() as link:
        link.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        server.hear("at work")
        server.process.send_signal(signal.SIGTERM)
        assert link.recv(100).startswith(b"HTTP/1.1 200 ")
        assert server.process.wait(LIMIT_SECONDS) == 0


def test_a_stream_does_not_hold_up_the_end(server: Server) -> None:
    """The supervisor and systemd end what takes ten seconds."""
    with server.connect() as link:
        link.sendall(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
        assert link.recv(100)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(LIMIT_SECONDS) == 0
