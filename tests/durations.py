"""Writes what each test took into the durations file of its folder."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from config.toolchain import durations


class Stopwatch:
    """Adds up the set-up, the call and the tear-down of each test; with workers the
    reports of all of them arrive here."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration  # type: ignore[assignment]

    def pytest_sessionfinish(self) -> None:
        durations.save(self.seconds)


def pytest_configure(config: pytest.Config) -> None:
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    if not is_worker and not config.getoption("collectonly"):
        config.pluginmanager.register(Stopwatch())
