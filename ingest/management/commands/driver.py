"""`manage.py driver`: the driver host as a process, one per home."""

from __future__ import annotations

import fcntl
import logging
import shutil
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from core.errors import TerminalError
from core.processes.stop import stop_event
from ingest.driver_host.commands import (
    driver_command,
    launcher_for,
    place_of,
    require_parts,
)
from ingest.driver_host.host import DriverHost
from ingest.driver_host.warm import DriverCommand, kill_leftovers
from ingest.hosting import serve
from ingest.jobs.queue import CHANNEL

log = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Run the driver host: it owns the Spark drivers and hands jobs to them."
    # routes and pages are no business of this process
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        home = Path(settings.SLUICE_HOME)
        lock = _only_one(home / "run" / "driver.lock")
        stop = stop_event()
        try:
            require_parts()
        except TerminalError as error:
            raise CommandError(str(error)) from error
        clean_up(driver_command(home))
        host = DriverHost(launcher_for(home), place=place_of(home))
        try:
            serve(host, channel=CHANNEL, stop=stop)
        finally:
            lock.close()


def _only_one(path: Path) -> IO[str]:
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise CommandError(
            f"another driver host runs already for this home ({path})"
        ) from error
    return lock


def clean_up(command: DriverCommand) -> None:
    """What a host that was killed could not do: end its drivers, delete their files."""
    if killed := kill_leftovers(command.pid_file):
        log.warning("ended what an earlier host left: %s", killed)
    shutil.rmtree(command.scratch, ignore_errors=True)
