"""TLS in front of a PostgreSQL that has none: answers SSLRequest, then relays bytes."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.waiting import LIMIT_SECONDS

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


class Authority:
    """A certificate authority of one test. `path` is its own certificate, PEM."""

    def __init__(self, directory: Path, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(self._name, self._key, until=NOW + DAY)
        builder = builder.add_extension(x509.BasicConstraints(True, None), True)
        self.path = directory / f"{name}.pem"
        self.path.write_bytes(self._signed(builder))

    def server_context(
        self, *, host: str = "127.0.0.1", until: datetime.datetime = NOW + DAY
    ) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
        try:
            name: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            name = x509.DNSName(host)
        builder = self._builder(subject, key, until=until)
        builder = builder.add_extension(x509.SubjectAlternativeName([name]), False)
        both = self.path.with_suffix(".server")
        both.write_bytes(
            self._signed(builder)
            + key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(both)
        return context

    def _builder(self, subject, key, *, until) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - 9 * DAY)
            .not_valid_after(until)
        )

    def _signed(self, builder: x509.CertificateBuilder) -> bytes:
        certificate = builder.sign(self._key, hashes.SHA256())
        return certificate.public_bytes(serialization.Encoding.PEM)


def relay(client: ssl.SSLSocket, server: socket.socket) -> None:
    """Both directions on one thread: OpenSSL allows no two calls on one connection."""
    client.setblocking(False)
    while True:
        ready, _, _ = select.select([client, server], [], [], 20)
        if not ready:
            return
        if server in ready:
            data = server.recv(65_536)
            if not data:
                return
            send(client, data)
        if client in ready:
            with contextlib.suppress(ssl.SSLWantReadError):
                while data := client.recv(65_536):
                    server.sendall(data)
                return


def send(client: ssl.SSLSocket, data: bytes) -> None:
    while data:
        try:
            data = data[client.send(data) :]
        except ssl.SSLWantWriteError:
            select.select([], [client], [], 20)


@contextlib.contextmanager
def tls_in_front_of(host: str, port: int, context: ssl.SSLContext) -> Iterator[int]:
    """A listener that does TLS and relays to host:port; its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def run(target, *args) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        threads.append(thread)
        thread.start()

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                run(serve, listener.accept()[0])

    def serve(client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            client.settimeout(20)
            if len(client.recv(8)) != 8:
                return
            client.sendall(b"S")
            secured = context.wrap_socket(client, server_side=True)
            with secured, socket.create_connection((host, port)) as server:
                relay(secured, server)

    run(accept)
    try:
        yield listener.getsockname()[1]
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in threads:
            thread.join(LIMIT_SECONDS)
