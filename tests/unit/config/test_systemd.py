"""Units of systemd: one for each process, as the supervisor starts it, and hardened."""

from __future__ import annotations

import shutil
import subprocess
from configparser import RawConfigParser
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from config.supervisor.stack import ROOT
from config.systemd.units import Install, Service, argument, unit_files

PROCESSES = {"prepare", "web", "gateway", "driver", "followers", "worker", "tick"}


@pytest.fixture
def written(tmp_path: Path, settings) -> Path:
    settings.SLUICE_HOME = str(tmp_path / "a home%")
    settings.SLUICE_LAKE_URI = "/srv/lake"
    settings.SLUICE_WEB_PORT = 8123
    call_command("systemd", str(tmp_path / "units"), "--user=root", stdout=StringIO())
    return tmp_path / "units"


def unit(path: Path) -> RawConfigParser:
    """Keys that occur twice keep the last value; enough for what is asked here."""
    parser = RawConfigParser(strict=False, delimiters="=", interpolation=None)
    parser.optionxform = str  # type: ignore[method-assign,assignment]
    parser.read_string(path.read_text())
    return parser


def test_every_process_has_a_unit_of_the_target(written: Path) -> None:
    names = {path.name for path in written.iterdir()}
    assert names == {"sluice.target", *(f"sluice-{name}.service" for name in PROCESSES)}
    wanted = unit(written / "sluice.target")["Unit"]["Wants"].split()
    assert set(wanted) == names - {"sluice.target"}


def test_only_the_gateway_is_opened_by_the_bind(
    written: Path, monkeypatch, tmp_path
) -> None:
    """The web process speaks no TLS: its proxy does."""
    monkeypatch.setenv("SLUICE_BIND", "0.0.0.0")
    call_command("systemd", str(tmp_path / "open"), stdout=StringIO())
    assert "0.0.0.0" not in (tmp_path / "open" / "sluice-web.service").read_text()


def test_units_run_what_the_supervisor_runs_with_the_settings(written: Path) -> None:
    web = unit(written / "sluice-web.service")["Service"]
    assert "manage.py web --bind 127.0.0.1:8123" in web["ExecStart"]
    assert "127.0.0.1:8123" in web["ExecStart"]
    assert web["WorkingDirectory"] == str(ROOT)
    assert web["EnvironmentFile"] == "/etc/sluice/sluice.env"
    text = (written / "sluice-web.service").read_text()
    assert 'a home%%"' in text
    assert unit(written / "sluice-prepare.service")["Service"]["Type"] == "oneshot"


def test_nothing_may_write_beyond_its_places(written: Path) -> None:
    for path in written.glob("*.service"):
        service = unit(path)["Service"]
        assert service["ProtectSystem"] == "strict", path.name
        assert service["NoNewPrivileges"] == "yes"
        assert service["CapabilityBoundingSet"] == ""
    gateway = unit(written / "sluice-gateway.service")["Service"]
    assert gateway["ReadOnlyPaths"] == "/srv/lake"
    assert "/srv/lake" not in gateway["ReadWritePaths"]
    driver = unit(written / "sluice-driver.service")["Service"]
    assert driver["ReadWritePaths"].endswith(" /srv/lake")


def test_no_secret_is_in_a_unit(written: Path, settings) -> None:
    texts = "".join(path.read_text() for path in written.iterdir())
    for secret in (settings.SECRET_KEY, settings.SLUICE_SERVICE_SECRET):
        assert secret not in texts
    assert "postgresql://" not in texts


def test_systemd_takes_them(written: Path) -> None:
    """By its own verifier where it is installed; it knows every key and value."""
    verifier = shutil.which("systemd-analyze")
    units = sorted(map(str, written.iterdir()))
    if verifier is None:  # what it would complain of first: keys outside of sections
        assert all(unit(Path(path)).sections() for path in units)
        return
    done = subprocess.run(
        [verifier, "verify", "--man=no", "--recursive-errors=no", *units],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    ours = [line for line in done.stderr.splitlines() if "sluice" in line]
    assert ours == []


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CommandError, match="file"):
        call_command("systemd", str(tmp_path / "file"), stdout=StringIO())


def test_words_are_kept_as_they_are() -> None:
    assert argument("plain-1:2") == "plain-1:2"
    assert argument("a b") == '"a b"'
    assert argument("100%$x") == "100%%$$x"
    install = Install(Path("/r"), Path("/home/x"), "u", Path("/e"), {})
    text = unit_files(install, [Service("a", "b", ["c"])])["sluice-a.service"]
    assert "ProtectHome=read-only" in text
