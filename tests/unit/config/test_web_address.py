"""quickstart opens the web process, which speaks no TLS, to nobody by accident."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from config.demo.walk import way_in
from config.supervisor.stack import Options, Ports, Servers, Stack, web_address
from config.supervisor.supervisor import Supervisor, connection_of
from core.errors import TerminalError

OPEN = {"SLUICE_BIND": "0.0.0.0"}
CERTIFIED = OPEN | {"SLUICE_TLS_CERTIFICATE": "/etc/sluice/tls.pem"}


@pytest.fixture
def environment(monkeypatch):
    for name in (
        "BIND",
        "TLS_CERTIFICATE",
        "TLS_CERTIFICATE_FILE",
        "ALLOW_PLAINTEXT",
    ):
        monkeypatch.delenv(f"SLUICE_{name}", raising=False)
    return lambda given: [monkeypatch.setenv(*item) for item in given.items()]


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ({}, "127.0.0.1"),
        ({"SLUICE_BIND": "::1"}, "::1"),
        (CERTIFIED, "127.0.0.1"),
        (OPEN | {"SLUICE_ALLOW_PLAINTEXT": "true"}, "0.0.0.0"),
    ],
)
def test_only_an_explicit_word_opens_the_web_process(environment, given, address):
    environment(given)
    assert web_address() == address


def test_quickstart_refuses_to_offer_passwords_in_plain_text(
    environment, tmp_path: Path
):
    environment(OPEN)
    with pytest.raises(TerminalError, match="in plain text") as raised:
        Supervisor(Options(tmp_path)).run()
    assert "SLUICE_ALLOW_PLAINTEXT" in raised.value.hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "web", "gateway"),
    [
        ({}, "http://127.0.0.1:81", "127.0.0.1"),
        ({"SLUICE_BIND": "127.0.0.2"}, "http://127.0.0.2:81", "127.0.0.2"),
        ({"SLUICE_BIND": "::1"}, "http://[::1]:81", "[::1]"),
        (CERTIFIED, "http://127.0.0.1:81", "127.0.0.1"),
        (CERTIFIED | {"SLUICE_BIND": "192.0.2.7"}, "http://127.0.0.1:81", "192.0.2.7"),
    ],
)
def test_quickstart_looks_for_its_processes_where_they_listen(
    environment, tmp_path: Path, given, web, gateway
):
    environment(given)
    none = Servers(metadata=None, redis=None, demo=None)
    stack = Stack(Options(tmp_path), none, Ports(81, 82, 83, claims=()), jars="")
    assert (stack.web_url, stack.gateway_host) == (web, gateway)


@pytest.mark.parametrize(
    ("given", "tls", "port"),
    [
        ({}, "", 82),
        ({"SLUICE_TLS_CERTIFICATE": "/etc/sluice/tls.pem"}, ";ssl=true", 83),
        ({"SLUICE_TLS_CERTIFICATE_FILE": "/run/secrets/tls"}, ";ssl=true", 83),
    ],
)
def test_a_gateway_with_a_certificate_is_reached_by_tls(
    environment, tmp_path: Path, given, tls, port
):
    environment(given)
    none = Servers(metadata=None, redis=None, demo=None)
    stack = Stack(Options(tmp_path), none, Ports(81, 82, 83, claims=()), jars="")
    stack.home.administrator_file.parent.mkdir(parents=True)
    login = {"username": "admin", "password": "p", "token": "slt_t"}
    stack.home.administrator_file.write_text(json.dumps(login))
    found = connection_of(stack, {})
    assert found["jdbc_url"] == f"jdbc:hive2://127.0.0.1:82/default{tls}"
    assert way_in(found)["port"] == port
