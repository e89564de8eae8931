"""connection.json is kept up to date by a look twice a second, which takes little."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.supervisor.home import Home
from config.supervisor.supervisor import ConnectionFile
from core.files import write_private


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(tmp_path)
    for folder in (found.run, found.keys):
        folder.mkdir()
    return found


def test_at_rest_it_is_put_together_some_times_a_minute(home: Home) -> None:
    file = ConnectionFile(home.connection_file)
    looks = [file.is_due({"web": 7}, home, half / 2) for half in range(120)]
    assert looks[0]
    assert 10 < sum(looks) <= 20


def test_what_was_started_anew_is_in_it_at_once(home: Home) -> None:
    file = ConnectionFile(home.connection_file)
    assert file.is_due({"web": 7}, home, 0.0)
    assert file.is_due({"web": None}, home, 0.5)
    assert not file.is_due({"web": None}, home, 1.0)
    before = home.run.stat().st_mtime_ns
    while home.run.stat().st_mtime_ns == before:
        write_private(home.run / "engine-main.pid.json", "{}")
    assert file.is_due({"web": None}, home, 1.5)
