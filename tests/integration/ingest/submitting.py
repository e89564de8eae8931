"""Submissions without Spark: the stub driver in the place of `spark-submit`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ingest.driver_host.submit import SubmitCommand

STUB = Path(__file__).with_name("stub_driver.py")
ROOT = Path(__file__).resolve().parents[3]
HOUSE = "0123456789ab"


def submit_command(folder: Path) -> SubmitCommand:
    faults = folder / "faults"
    faults.touch()
    return SubmitCommand(
        program=[sys.executable, str(STUB), str(faults)],
        script=[],
        environment={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        instance=HOUSE,
        records=folder / "run" / "submitted",
        door=folder / "run" / "door" / "control.sock",
        log_file=folder / "logs" / "driver.log",
        scratch=folder / "scratch",
    )
