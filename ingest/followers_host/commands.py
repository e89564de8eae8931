"""From settings to a command: which program follows a log, with what around it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from django.conf import settings

from ingest.followers_host.children import FollowerCommand

_KEPT = ("PATH", "HOME", "USER", "TMPDIR", "LANG")


def follower_command(home: Path) -> FollowerCommand:
    """It gets no setting of ours in its environment, so no secret of ours."""
    return FollowerCommand(
        program=[sys.executable, "-m", "ingest.follower"],
        environment={key: os.environ[key] for key in _KEPT if key in os.environ}
        | {
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "PYTHONPATH": str(settings.BASE_DIR),
            # the folder in which it is started hides no module
            "PYTHONSAFEPATH": "1",
            "PYTHONUNBUFFERED": "1",
        },
        logs=home / "logs",
        run=home / "run",
        silence_seconds=settings.SLUICE_LEASE_SECONDS / 2,
    )
