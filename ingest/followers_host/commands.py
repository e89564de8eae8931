"""From settings to a command: which program follows a log, with what around it."""

from __future__ import annotations

import sys
from pathlib import Path

from django.conf import settings

from core.processes.child import python_environment
from ingest.followers_host.children import FollowerCommand


def follower_command(home: Path) -> FollowerCommand:
    return FollowerCommand(
        program=[sys.executable, "-m", "ingest.follower"],
        environment=python_environment(settings.BASE_DIR) | {"TZ": "UTC"},
        logs=home / "logs",
        run=home / "run",
        silence_seconds=settings.SLUICE_LEASE_SECONDS / 2,
    )
