"""TLS of sources: encrypted, checked, and each way in which a certificate is wrong."""

from __future__ import annotations

import pytest

from catalog.discovery.probe import run_probe
from catalog.sources.postgresql.discover import PostgresReader
from core.errors import TerminalError
from tests.integration.discovery.tls_proxy import DAY, NOW, Authority, tls_in_front_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def authority(tmp_path) -> Authority:
    return Authority(tmp_path, "authority")


@pytest.fixture
def proxied(source):
    """A function: the source's access through TLS with this server context."""

    def access(port: int, **changes):
        return source.access(port=port, **changes)

    source.run("CREATE TABLE t (a int)")
    source.grant_all()
    return access


@pytest.mark.parametrize("tls", ["require", "verify"])
def test_encrypted(source_pg, proxied, authority, tls, monkeypatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    context = authority.server_context()
    with tls_in_front_of(source_pg.host, source_pg.port, context) as port:
        report = run_probe(proxied(port, tls=tls))
        with PostgresReader(proxied(port, tls=tls)) as reader:
            assert reader.overview().tables == 1
    assert report.is_ok, report.failed
    step = report.steps[2]
    assert step.status == "ok"
    words = {"require": "not checked", "verify": "certificate checked"}
    assert words[tls] in step.message


@pytest.mark.parametrize("fault", ["unknown authority", "expired", "other host"])
def test_a_certificate_that_is_not_accepted(
    source_pg, proxied, authority, tmp_path, fault, monkeypatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    context = {
        "unknown authority": lambda: Authority(tmp_path, "other").server_context(),
        "expired": lambda: authority.server_context(until=NOW - DAY),
        "other host": lambda: authority.server_context(host="db.example.org"),
    }[fault]()
    with tls_in_front_of(source_pg.host, source_pg.port, context) as port:
        report = run_probe(proxied(port, tls="verify"))
        with (
            pytest.raises(TerminalError) as raised,
            PostgresReader(proxied(port, tls="verify")),
        ):
            pass
        relaxed = run_probe(proxied(port, tls="require"))
    assert report.failed is not None
    assert (report.failed.name, report.failed.code) == ("tls", "tls_certificate")
    assert report.failed.raw
    assert raised.value.code == "tls_certificate"
    assert relaxed.is_ok  # 'require' encrypts, it does not check
