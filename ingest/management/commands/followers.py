"""`manage.py followers`: the host of followers as a process, one per home."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from core.processes.child import python_environment
from core.processes.stop import stop_event
from ingest.driver_host.commands import place_of
from ingest.followers_host.children import FollowerCommand
from ingest.followers_host.host import FollowersHost
from ingest.hosting import serve
from ingest.pipelines.followers import CHANNEL


class Command(BaseCommand):
    help = "Follow the logs of sources: one process for each source with log tables."
    # routes and pages are no business of this process
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        home = Path(settings.SLUICE_HOME)
        stop = stop_event()
        command = FollowerCommand(
            program=[sys.executable, "-m", "ingest.follower"],
            environment=python_environment(settings.BASE_DIR) | {"TZ": "UTC"},
            logs=home / "logs",
            run=home / "run",
            silence_seconds=settings.SLUICE_LEASE_SECONDS / 2,
        )
        host = FollowersHost(command, place=place_of(home))
        serve(host, channel=CHANNEL, stop=stop)
