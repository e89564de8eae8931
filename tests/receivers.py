"""Who alerts are sent to in tests: a web server and a mail server on loopback, real
sockets, each doing what it is told to."""

from __future__ import annotations

import socketserver
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Web:
    """status, reply  what is answered; before  called first; drip  seconds between
    bytes of `dripped`, which are answered then."""

    url: str = ""
    status: int = 204
    reply: bytes = b""
    before: Callable[[], None] = field(default=lambda: None)
    drip: float = 0.0
    dripped: bytes = b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 1000
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


@contextmanager
def web_receiver(context: ssl.SSLContext | None = None) -> Iterator[Web]:
    """With `context` it speaks TLS."""
    web = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            web.paths.append(self.path)
            body = self.rfile.read(int(self.headers["Content-Length"]))
            web.got.append((dict(self.headers), body))
            web.before()
            if web.drip:
                self._drip()
                return
            self.send_response(web.status)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(web.reply)))
            self.end_headers()
            self.wfile.write(web.reply)

        def _drip(self) -> None:
            try:
                for byte in web.dripped:
                    self.wfile.write(bytes([byte]))
                    time.sleep(web.drip)
            except OSError:
                self.close_connection = True

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=[0.05])
    thread.start()
    scheme = "http" if context is None else "https"
    web.url = f"{scheme}://127.0.0.1:{server.server_port}/hook"
    try:
        yield web
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass
class Mailbox:
    """refuse  the answer to RCPT, "" = accepted; logins  what AUTH said, and whether TLS
    was spoken then; bye  the answer to QUIT; spam  a mail with it is not taken; drip
    seconds between lines of a greeting that never ends, 0 = it greets at once."""

    port: int = 0
    refuse: str = ""
    bye: str = "221 bye"
    spam: bytes = b""
    drip: float = 0.0
    mails: list[bytes] = field(default_factory=list)
    logins: list[tuple[bytes, bool]] = field(default_factory=list)


class _MailServer(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, context: ssl.SSLContext | None, *, implicit: bool) -> None:
        super().__init__(("127.0.0.1", 0), _MailHandler)
        self.context, self.implicit = context, implicit
        self.box = Mailbox(port=self.server_address[1])

    def handle_error(self, *_: Any) -> None:
        """A client that refuses the certificate hangs up."""


class _MailHandler(socketserver.StreamRequestHandler):
    server: _MailServer
    is_safe = False

    def handle(self) -> None:
        if self.server.implicit:
            self._secure()
        while self.server.box.drip:
            self._say("220-wait")
            time.sleep(self.server.box.drip)
        self._say("220 test")
        while line := self.rfile.readline():
            if not self._answer(line, self.server.box):
                return

    def _answer(self, line: bytes, box: Mailbox) -> bool:
        """False = that was the last."""
        verb = line[:4].upper().strip()
        if verb == b"EHLO":
            self._say("250-test")
            if self.server.context is not None and not self.is_safe:
                self._say("250-STARTTLS")
            self._say("250 AUTH PLAIN")
        elif verb == b"STAR" and self.server.context is not None:
            self._say("220 go on")
            self._secure()
        elif verb == b"AUTH":
            box.logins.append((line.split()[2], self.is_safe))
            self._say("235 welcome")
        elif verb == b"RCPT" and box.refuse:
            self._say(box.refuse)
        elif verb == b"DATA":
            self._say("354 go on")
            mail = b"".join(iter(self.rfile.readline, b".\r\n"))
            if box.spam and box.spam in mail:
                self._say("554 that is spam")
            else:
                box.mails.append(mail)
                self._say("250 kept")
        else:
            self._say(box.bye if verb == b"QUIT" else "250 ok")
        return verb != b"QUIT"

    def _secure(self) -> None:
        assert self.server.context is not None
        safe = self.server.context.wrap_socket(self.connection, server_side=True)
        self.rfile, self.wfile = safe.makefile("rb"), safe.makefile("wb", 0)
        self.connection, self.is_safe = safe, True

    def finish(self) -> None:
        super().finish()
        self.connection.close()

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@contextmanager
def mail_receiver(
    context: ssl.SSLContext | None = None, *, implicit: bool = False
) -> Iterator[Mailbox]:
    """With `context` it offers STARTTLS, or speaks TLS from the first byte on."""
    server = _MailServer(context, implicit=implicit)
    thread = threading.Thread(target=server.serve_forever, args=[0.05])
    thread.start()
    try:
        yield server.box
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
