"""HiveServer2 over HTTPS: the gateway's certificate is for its HTTP port, too."""

from __future__ import annotations

import contextlib
import http.client
import ssl

import pytest
from pyhive import hive

from tests.integration.discovery.tls_proxy import Authority
from tests.integration.gateway import test_http, test_tls
from tests.integration.gateway.conftest import PASSWORD
from tests.integration.gateway.test_pyhive import eventually

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*socket.*:pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path, "authority")


@pytest.fixture
def secured(users, tmp_path, authority):
    with test_tls.encrypted(tmp_path, authority, login_seconds=60) as running:
        yield running


def https(gateway, authority):
    context = ssl.create_default_context(cafile=str(authority.path))
    port = gateway.http_port
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=context)


def pyhive(gateway):
    return hive.connect(
        host="127.0.0.1",
        port=gateway.http_port,
        scheme="https",
        auth="BASIC",
        username="ann",
        password=PASSWORD,
        ssl_cert="required",
        check_hostname="true",
    )


def test_pyhive_reads_rows_of_a_gateway_whose_certificate_it_checks(
    secured, authority, monkeypatch
):
    with pytest.raises(ssl.SSLCertVerificationError):
        pyhive(secured)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    with pyhive(secured) as link, link.cursor() as cursor:
        cursor.execute("SELECT * FROM range(5000)")
        assert len(cursor.fetchall()) == 5000
    assert test_http.sessions(secured) == []
    assert eventually(lambda: not secured.gateway.server.connections.per_address)


def test_a_cookie_of_https_is_not_sent_without_it(secured, authority):
    with contextlib.closing(https(secured, authority)) as link:
        given = {"Authorization": test_http.basic()}
        status, headers, _ = test_http.post(secured, link=link, **given)
        cookie, *attributes = headers["Set-Cookie"].split("; ")
        assert (status, "Secure" in attributes) == (200, True)
        assert test_http.post(secured, link=link, Cookie=cookie)[0] == 200
        assert secured.gateway.server.connections.unauthenticated.total == 0


def test_what_is_no_handshake_gets_no_http(secured):
    with contextlib.closing(test_http.knock(secured)) as plain:
        plain.sendall(b"POST /cliservice HTTP/1.1\r\nHost: x\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert b"HTTP" not in test_http.read_all(plain)
    assert eventually(lambda: not secured.gateway.server.connections.per_address)


def test_a_silent_handshake_is_hung_up_on(users, tmp_path, authority):
    with test_tls.encrypted(tmp_path, authority, login_seconds=0.3) as gateway:
        with contextlib.closing(test_http.knock(gateway)) as silent:
            assert silent.recv(1) == b""
        assert eventually(lambda: not gateway.gateway.server.connections.per_address)
