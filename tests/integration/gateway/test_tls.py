"""TLS towards clients: handshakes are counted, bounded in time, and handed over."""

from __future__ import annotations

import contextlib
import socket
import ssl

import pytest

from gateway.hs2 import framing
from gateway.limits import GatewayLimits
from tests.integration.discovery.tls_proxy import Authority
from tests.integration.gateway.conftest import PASSWORD
from tests.integration.gateway.running import RunningGateway
from tests.integration.gateway.test_pyhive import eventually


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path, "authority")


@contextlib.contextmanager
def encrypted(home, authority, **limits):
    running = RunningGateway(
        home, GatewayLimits(**limits), tls=authority.server_context()
    )
    yield running
    running.close()


def half_open(gateway) -> socket.socket:
    return socket.create_connection(("127.0.0.1", gateway.port), timeout=30)


def client_of(gateway, authority) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=str(authority.path))
    return context.wrap_socket(half_open(gateway), server_hostname="127.0.0.1")


def is_let_in(client: ssl.SSLSocket) -> bool:
    client.sendall(framing.client_opening("ann", PASSWORD))
    return client.recv(5) == b"\x05\0\0\0\0"


def test_a_login_works_over_tls(users, tmp_path, authority):
    with encrypted(tmp_path, authority) as gateway:
        with client_of(gateway, authority) as client:
            assert is_let_in(client)
            assert gateway.gateway.server.connections.unauthenticated.total == 0
        assert eventually(lambda: not gateway.gateway.server.connections.per_address)


def test_sockets_in_their_handshake_are_counted_by_address(users, tmp_path, authority):
    limits = {"connections_before_login": 3, "login_seconds": 60}
    with encrypted(tmp_path, authority, **limits) as gateway:
        server = gateway.gateway.server
        held = [half_open(gateway) for _ in range(3)]
        assert eventually(lambda: server.connections.unauthenticated.total == 3)
        assert server.connections.per_address == {"127.0.0.1": 3}
        with client_of(gateway, authority) as client:
            with held.pop(0) as oldest:
                assert oldest.recv(1) == b""  # it made room
            assert is_let_in(client)
        for raw in held:
            raw.close()
        assert eventually(lambda: not server.connections.per_address)
        assert server.connections.unauthenticated.total == 0


def test_an_address_has_so_many_handshakes(users, tmp_path, authority):
    limits = {"connections_per_address": 2, "login_seconds": 60}
    with encrypted(tmp_path, authority, **limits) as gateway:
        first, second, third = (half_open(gateway) for _ in range(3))
        assert first.recv(1) == b""
        assert eventually(
            lambda: gateway.gateway.server.connections.per_address["127.0.0.1"] == 2
        )
        for raw in (first, second, third):
            raw.close()


def test_a_handshake_that_does_not_end_is_hung_up_on(users, tmp_path, authority):
    with encrypted(tmp_path, authority, login_seconds=0.3) as gateway:
        with half_open(gateway) as silent:
            assert silent.recv(1) == b""
        assert eventually(lambda: not gateway.gateway.server.connections.per_address)


def test_what_is_no_handshake_is_hung_up_on(users, tmp_path, authority):
    with encrypted(tmp_path, authority, login_seconds=60) as gateway:
        with half_open(gateway) as plain:
            plain.sendall(framing.client_opening("ann", PASSWORD))
            with contextlib.suppress(ConnectionResetError):
                while plain.recv(100):
                    pass
        assert eventually(lambda: not gateway.gateway.server.connections.per_address)


def test_handshakes_end_with_the_gateway(users, tmp_path, authority):
    with encrypted(tmp_path, authority, login_seconds=60) as gateway:
        held = half_open(gateway)
        assert eventually(
            lambda: gateway.gateway.server.connections.unauthenticated.total == 1
        )
    assert held.recv(1) == b""
    held.close()
