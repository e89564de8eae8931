"""Logs below a home stay small while their processes go on appending."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from config.supervisor import supervisor


def test_a_large_log_begins_anew_and_what_was_in_it_stays_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "MOST_BYTES", 10)
    path = tmp_path / "web.log"
    with path.open("a") as appended:
        appended.write("twelve bytes")
        appended.flush()
        supervisor.bound_logs(tmp_path)
        appended.write("more")
    assert path.read_text() == "more"
    supervisor.bound_logs(tmp_path)
    assert (tmp_path / "web.log.1").read_text() == "twelve bytes"


def test_of_ended_engines_the_newest_logs_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "ENGINES_KEPT", 2)
    for number in range(4):
        path = tmp_path / f"engine-{9 - number}.log"
        path.touch()
        os.utime(path, (number, number))
    supervisor.bound_logs(tmp_path)
    assert {one.name for one in tmp_path.iterdir()} == {"engine-6.log", "engine-7.log"}
