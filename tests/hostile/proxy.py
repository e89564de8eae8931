"""A loopback proxy before a source: it knows statements, and it can fall silent.

Hooks run before a statement goes to the server and after it was answered, before the
client hears of that: whatever a hook does lies between two statements of the job.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.hostile.wire import Answer, MysqlWire, PostgresWire, Request, WireReader

_BYTES = 65_536
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Statement:
    """number: of all that came through since `count_anew`, from 1."""

    number: int
    connection: int
    text: str


Hook = Callable[[Statement], None]


def _nothing(_: Statement) -> None:
    return


class WireProxy:
    """`port` on 127.0.0.1 leads to the server at host:target."""

    def __init__(self, host: str, target: int, wire: type[WireReader]) -> None:
        self.target = (host, target)
        self.before: Hook = _nothing
        self.after: Hook = _nothing
        self.sent: list[Statement] = []
        # seconds before each piece of an answer, and its most bytes (0 = any)
        self.delay, self.piece = 0.0, 0
        self._wire = wire
        self._lock = threading.Lock()
        self._turn = threading.RLock()
        self._flows = threading.Event()
        self._flows.set()
        self._frozen: set[int] = set()
        self._links: list[_Link] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.start(self._accept)

    # ------------------------------------------------------------- what a test does

    def count_anew(self, before: Hook = _nothing, after: Hook = _nothing) -> None:
        with self._lock:
            self.sent = []
            self.before, self.after = before, after

    def follow(self, port: int) -> None:
        """New connections go there, on the same machine."""
        self.target = (self.target[0], port)

    def freeze(self, connection: int = 0) -> None:
        """Nothing goes through any more, of all connections or of that one; they stay,
        and new ones are accepted."""
        if connection:
            self._frozen.add(connection)
        else:
            self._flows.clear()

    def thaw(self) -> None:
        self._frozen.clear()
        self._flows.set()

    @property
    def is_silent(self) -> bool:
        return not self._flows.is_set()

    def trickle(self) -> None:
        """A few bytes at a time from now on."""
        self.piece, self.delay = 64, 0.0005

    def calm(self) -> None:
        """Everything goes through at once, and nobody waits for a statement."""
        self.piece, self.delay = 0, 0.0
        self.thaw()
        self.count_anew()

    def cut(self) -> int:
        """Ends every connection; how many there were."""
        with self._lock:
            links, self._links = self._links, []
        for link in links:
            link.close()
        return len(links)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.thaw()
        self.cut()
        for thread in list(self._threads):
            thread.join(5)

    # ----------------------------------------------------------------- of the links

    def start(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, daemon=True)
        self._threads = [t for t in self._threads if t.is_alive()]
        self._threads.append(thread)
        thread.start()

    def flow(self, connection: int) -> None:
        """Returns when its bytes may go on."""
        self._flows.wait()
        while connection in self._frozen:
            time.sleep(_LOOK_SECONDS)

    def note(self, connection: int, text: str) -> Statement:
        with self._lock:
            made = Statement(len(self.sent) + 1, connection, text)
            self.sent.append(made)
        return made

    def call(self, hook: Hook, statement: Statement) -> None:
        # one hook at a time: what it does lies at one place of the job
        with self._turn:
            hook(statement)

    def forget(self, link: _Link) -> None:
        with self._lock, contextlib.suppress(ValueError):
            self._links.remove(link)

    def _accept(self) -> None:
        number = 0
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                number += 1
                try:
                    server = socket.create_connection(self.target)
                except OSError:
                    client.close()
                    continue
                link = _Link(self, number, (client, server), self._wire())
                with self._lock:
                    self._links.append(link)
                self.start(link.upwards)
                self.start(link.downwards)


class _Link:
    """One connection: a thread for each direction."""

    def __init__(
        self,
        proxy: WireProxy,
        number: int,
        ends: tuple[socket.socket, socket.socket],
        wire: WireReader,
    ) -> None:
        self._proxy, self._number, self._wire = proxy, number, wire
        self._client, self._server = ends
        for end in ends:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._waiting: deque[Statement] = deque()
        self._directions = threading.Semaphore(1)

    def upwards(self) -> None:
        with self._ending():
            while data := self._client.recv(_BYTES):
                for request in self._wire.requests(data):
                    self._send_up(request)

    def downwards(self) -> None:
        with self._ending():
            while data := self._server.recv(_BYTES):
                plain = bytearray()
                for answer in self._wire.answers(data):
                    if answer.ends and self._waiting:
                        self._send_down(bytes(plain))
                        plain.clear()
                        self._finish(answer)
                    else:
                        plain += answer.data
                self._send_down(bytes(plain))

    def close(self) -> None:
        for end in (self._client, self._server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    @contextlib.contextmanager
    def _ending(self) -> Iterator[None]:
        with contextlib.suppress(OSError):
            yield
        self.close()
        self._proxy.forget(self)
        if not self._directions.acquire(blocking=False):
            # the other direction has ended, too
            self._client.close()
            self._server.close()

    def _send_up(self, request: Request) -> None:
        if request.reply:
            self._client.sendall(request.reply)
            return
        if request.text:
            statement = self._proxy.note(self._number, request.text)
            self._proxy.call(self._proxy.before, statement)
            self._waiting.append(statement)
        self._proxy.flow(self._number)
        self._server.sendall(request.data)

    def _finish(self, answer: Answer) -> None:
        self._proxy.call(self._proxy.after, self._waiting.popleft())
        self._send_down(answer.data)

    def _send_down(self, data: bytes) -> None:
        size = self._proxy.piece or len(data)
        while data:
            self._proxy.flow(self._number)
            if self._proxy.delay:
                time.sleep(self._proxy.delay)
            self._client.sendall(data[:size])
            data = data[size:]


def proxy_of(kind: str, host: str, port: int) -> WireProxy:
    return WireProxy(host, port, PostgresWire if kind == "postgresql" else MysqlWire)
