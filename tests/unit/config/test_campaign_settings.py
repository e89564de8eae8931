"""What a campaign or a bench is told by settings reaches it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module", ["tests.fault.campaign", "tests.bench.ingest_bench", "tests.siege.target"]
)
def test_importing_it_leaves_the_settings_alone(module: str) -> None:
    asked = f"import os, {module}; print(os.environ.get('SLUICE_FAULT_RUNS'))"
    found = subprocess.run(
        [sys.executable, "-c", asked],
        env={**os.environ, "SLUICE_FAULT_RUNS": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == "7"
