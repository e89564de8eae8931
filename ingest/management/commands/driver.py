"""`manage.py driver`: the driver host as a process, one per home."""

from __future__ import annotations

import fcntl
import logging
import os
import platform
import shutil
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import IO, Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from ingest.launch.host import DriverHost
from ingest.launch.warm import DriverCommand, WarmLauncher, kill_leftovers

log = logging.getLogger(__name__)

_KEPT = ("PATH", "JAVA_HOME", "HOME", "USER", "TMPDIR", "LANG", "HADOOP_USER_NAME")


class Command(BaseCommand):
    help = "Run the driver host: it owns the warm Spark driver and hands jobs to it."
    # routes and pages are no business of this process
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        home = Path(settings.SLUICE_HOME)
        lock = _only_one(home / "run" / "driver.lock")
        stop = threading.Event()

        def told(number: int, frame: FrameType | None) -> None:
            stop.set()

        signal.signal(signal.SIGTERM, told)
        signal.signal(signal.SIGINT, told)
        command = driver_command(home)
        clean_up(command)
        host = DriverHost(WarmLauncher(command), place=f"{platform.node()}:{home}")
        try:
            while not stop.is_set():
                host.step()
        finally:
            host.stop()
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


def driver_command(home: Path) -> DriverCommand:
    """The driver gets no setting of ours in its environment, so no secret of ours."""
    root = Path(settings.BASE_DIR)
    environment = {key: os.environ[key] for key in _KEPT if key in os.environ}
    environment |= {
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": str(root),
        "PYTHONUNBUFFERED": "1",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SLUICE_HOME": str(home),
    }
    for jar in settings.SLUICE_SPARK_JARS.split(os.pathsep):
        if not Path(jar).is_file():
            raise CommandError(f"{jar} is missing: run `make setup` first")
    program = [
        sys.executable,
        "-m",
        "ingest.spark.main",
        "--jars",
        settings.SLUICE_SPARK_JARS,
        "--master",
        settings.SLUICE_SPARK_MASTER,
        "--memory",
        settings.SLUICE_DRIVER_MEMORY,
    ]
    return DriverCommand(
        program=program,
        environment=environment,
        log_file=home / "logs" / "driver.log",
        pid_file=home / "run" / "driver.pid.json",
        scratch=home / "tmp" / "driver",
        silence_seconds=settings.SLUICE_LEASE_SECONDS / 2,
    )
