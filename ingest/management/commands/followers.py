"""`manage.py followers`: the host of followers as a process, one per home."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from core.processes.stop import stop_event
from ingest.driver_host.commands import place_of
from ingest.followers_host.commands import follower_command
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
        host = FollowersHost(follower_command(home), place=place_of(home))
        serve(host, channel=CHANNEL, stop=stop)
