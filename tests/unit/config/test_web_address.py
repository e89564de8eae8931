"""quickstart opens the web process, which speaks no TLS, to nobody by accident."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.supervisor.stack import Options, web_address
from config.supervisor.supervisor import Supervisor
from core.errors import TerminalError

OPEN = {"SLUICE_BIND": "0.0.0.0"}
CERTIFIED = OPEN | {"SLUICE_TLS_CERTIFICATE": "/etc/sluice/tls.pem"}


@pytest.fixture
def environment(monkeypatch):
    for name in ("BIND", "TLS_CERTIFICATE", "ALLOW_PLAINTEXT"):
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
