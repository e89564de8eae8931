"""From settings to a launcher: which program starts a driver, with what around it.

A driver gets no setting of ours in its environment, so no secret of ours.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

from django.conf import settings

from core.errors import TerminalError
from core.processes.child import python_environment
from ingest.contract import java
from ingest.driver_host.cluster import (
    Cluster,
    StandaloneMaster,
    instance_of,
    is_standalone,
)
from ingest.driver_host.warm import DriverCommand, WarmLauncher


def place_of(home: Path) -> str:
    """Machine and home: one host serves it at a time."""
    return f"{platform.node()}:{home}"


def launcher_for(home: Path) -> WarmLauncher:
    return WarmLauncher(driver_command(home), _cluster(home))


def driver_command(home: Path) -> DriverCommand:
    return DriverCommand(
        program=[
            sys.executable,
            "-m",
            "ingest.driver.main",
            *_options(),
        ],
        environment=_environment(home),
        log_file=home / "logs" / "driver.log",
        pid_file=home / "run" / "driver.pid.json",
        scratch=home / "tmp" / "driver",
        instance=instance_of(place_of(home)),
        silence_seconds=settings.SLUICE_LEASE_SECONDS / 2,
        is_cluster=is_standalone(settings.SLUICE_SPARK_MASTER),
    )


def require_parts() -> None:
    for jar in settings.SLUICE_SPARK_JARS.split(os.pathsep):
        if not Path(jar).is_file():
            raise TerminalError(
                "%(file)s is missing", file=jar, hint="run `make setup` first"
            )


def _options() -> list[str]:
    options = [
        "--jars",
        settings.SLUICE_SPARK_JARS,
        "--master",
        settings.SLUICE_SPARK_MASTER,
        "--memory",
        settings.SLUICE_DRIVER_MEMORY,
    ]
    for key, value in _cluster_conf().items():
        options += ["--conf", f"{key}={value}"]
    return options


def _cluster(home: Path) -> Cluster | None:
    if not is_standalone(settings.SLUICE_SPARK_MASTER):
        return None
    instance = instance_of(place_of(home))
    return StandaloneMaster(settings.SLUICE_SPARK_MASTER_UI, instance=instance)


def _cluster_conf() -> dict[str, str]:
    """Nothing for a local master. The jars lie at the same paths on every worker."""
    if not is_standalone(settings.SLUICE_SPARK_MASTER):
        return {}
    conf = {
        "spark.driver.host": settings.SLUICE_DRIVER_HOST,
        "spark.driver.bindAddress": settings.SLUICE_DRIVER_HOST,
        "spark.executor.memory": settings.SLUICE_EXECUTOR_MEMORY,
        "spark.executor.extraClassPath": settings.SLUICE_SPARK_JARS,
        "spark.executor.extraJavaOptions": java.EXECUTOR,
        "spark.cores.max": str(settings.SLUICE_EXECUTOR_CORES),
    }
    if settings.SLUICE_SPARK_SECRET:
        conf |= {
            "spark.authenticate": "true",
            # must be there for a standalone master, but the environment's goes first
            # (SecurityManager.getSecretKey): so the secret is in no argument
            "spark.authenticate.secret": "in-the-environment",
            "spark.network.crypto.enabled": "true",
        }
    return conf


def _environment(home: Path) -> dict[str, str]:
    environment = python_environment(settings.BASE_DIR)
    if settings.SLUICE_SPARK_SECRET:
        # where Spark itself looks for it, and hands it to executors
        environment["_SPARK_AUTH_SECRET"] = settings.SLUICE_SPARK_SECRET
    return environment | {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": settings.SLUICE_DRIVER_HOST,
        "SLUICE_HOME": str(home),
    }
