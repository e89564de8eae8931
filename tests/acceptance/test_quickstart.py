"""Quickstart's promises: one stack per home, restarted parts, nothing left behind."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from config.embedded.postgres import ROOT_STORE, EmbeddedPostgres
from tests.processes import family, is_alive, line_of
from tests.product import MANAGE, ROOT, manage
from tests.run_environment import product_python
from tests.waiting import LIMIT_SECONDS, wait_for


def connection(home: Path) -> dict[str, Any]:
    return json.loads((home / "connection.json").read_text())


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [product_python(), str(MANAGE), "quickstart", "--home", str(home), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A stack without demo, under a name that no shell could be careless with."""
    home = tmp_path_factory.mktemp("home with a space")
    manage(home, "quickstart", "--home", str(home), "--no-demo", "--detach")
    yield home
    manage(home, "quickstart", "--stop", "--home", str(home))
    EmbeddedPostgres(home, "metadata").destroy()


def test_connection_json_is_private_and_says_where_things_are(home: Path) -> None:
    facts = connection(home)
    assert (home / "connection.json").stat().st_mode & 0o777 == 0o600
    assert facts["demo_source"] is None
    assert facts["token"].startswith("slt_")
    web, gateway = int(facts["web_url"].rsplit(":", 1)[1]), facts["gateway"]
    for port in (web, gateway["port"], gateway["http_port"]):
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    for name in ("web", "worker", "gateway"):
        assert psutil.pid_exists(facts["pids"][name])


def test_keys_are_private(home: Path) -> None:
    for path in (home / "keys").iterdir():
        assert path.stat().st_mode & 0o077 == 0, path


def test_no_secret_is_an_argument(home: Path) -> None:
    secrets = [
        path.read_text().strip()
        for path in (home / "keys").iterdir()
        if path.suffix not in {".json", ".conf"}
    ]
    secrets.append(connection(home)["password"])
    below = family(connection(home)["pids"]["supervisor"])[1:]
    lines = [line_of(process) for process in below]
    assert any("manage.py web" in line for line in lines), lines
    for line in lines:
        assert not [secret for secret in secrets if secret in line], line


@pytest.mark.parametrize("role", ["web", "worker", "tick", "redis", "postgres"])
def test_a_killed_part_comes_back(home: Path, role: str) -> None:
    part = wait_for(lambda: family(connection(home)["pids"][role]), f"{role} to run")[0]
    part.kill()
    wait_for(
        lambda: connection(home)["pids"][role] not in {part.pid, None},
        f"{role} to come back",
    )


def test_doctor_finds_no_problem(home: Path) -> None:
    said: list[str] = []

    def is_well() -> bool:
        done = subprocess.run(
            [product_python(), str(MANAGE), "doctor"],
            cwd=ROOT,
            env={**_clean(), "SLUICE_HOME": str(home)},
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        said.append(done.stdout + done.stderr)
        return done.returncode == 0 and "PROBLEM" not in done.stdout

    wait_for(is_well, lambda: f"doctor to be content: {said[-1]}", pause=1)


def _clean() -> dict[str, str]:
    """Of a user, who may keep the parts elsewhere."""
    mine = ("SLUICE_PARTS_CACHE", "SLUICE_MAVEN_URL")
    found = os.environ.items()
    return {k: v for k, v in found if k in mine or not k.startswith("SLUICE_")}


def test_a_second_start_of_a_home_is_refused(home: Path) -> None:
    done = run(home, "--no-demo", "--detach")
    assert done.returncode == 1
    assert "runs already" in done.stderr
    assert psutil.pid_exists(connection(home)["pids"]["supervisor"])


def test_stop_leaves_nothing_and_the_next_start_finds_its_state(home: Path) -> None:
    facts = connection(home)
    stack = family(facts["pids"]["supervisor"])
    done = run(home, "--stop")
    assert done.returncode == 0, done.stderr
    assert stack
    assert not [one for one in stack if is_alive(one)]
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", facts["gateway"]["port"])) != 0
    assert not list((home / "run").glob("*.lock"))
    assert not list((home / "run").glob("*.pid.json"))
    assert not (home / "connection.json").exists()
    manage(home, "quickstart", "--home", str(home), "--no-demo", "--detach")
    assert connection(home)["password"] == facts["password"]


def test_as_root_the_server_lives_where_its_account_can_read(home: Path) -> None:
    link = home / "pg"
    if os.geteuid() == 0:
        assert link.is_symlink()
        assert link.resolve().parent == ROOT_STORE
    else:
        assert link.is_dir()
