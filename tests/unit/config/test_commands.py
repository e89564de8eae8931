"""The command line says in words what is missing before anything was started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from config.supervisor.stack import ROOT


@pytest.mark.parametrize("command", ["doctor", "settings", "rebuild"])
def test_a_command_without_a_home_names_what_is_missing(
    tmp_path: Path, command: str
) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}
    ended = subprocess.run(
        [sys.executable, ROOT / "manage.py", command],
        env=environment | {"SLUICE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert "SLUICE_SECRET_KEY" in ended.stderr
    assert "make demo" in ended.stderr
    assert "Traceback" not in ended.stderr
