"""From settings to a launcher: which program starts a driver, with what around it.

A driver gets no setting of ours in its environment, so no secret of ours.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
from pathlib import Path

from django.conf import settings

from core.errors import TerminalError
from core.sentences import Sentence
from ingest.contract import java
from ingest.driver_host.cluster import (
    Cluster,
    StandaloneMaster,
    instance_of,
    is_standalone,
)
from ingest.driver_host.launcher import Launcher
from ingest.driver_host.submit import SubmitCommand, SubmitLauncher
from ingest.driver_host.warm import DriverCommand, WarmLauncher

_KEPT = (
    "PATH", "JAVA_HOME", "JDK_JAVA_OPTIONS", "HOME", "USER", "TMPDIR", "LANG",
    "HADOOP_USER_NAME",
)  # fmt: skip


def place_of(home: Path) -> str:
    """Machine and home: one host serves it at a time."""
    return f"{platform.node()}:{home}"


def launcher_for(home: Path) -> Launcher:
    cluster = _cluster(home)
    if settings.SLUICE_LAUNCHER == "submit":
        return SubmitLauncher(submit_command(home), cluster)
    return WarmLauncher(driver_command(home), cluster)


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


def submit_command(home: Path) -> SubmitCommand:
    jars, heap = settings.SLUICE_SPARK_JARS, settings.SLUICE_DRIVER_MEMORY
    own = ["--deploy-mode", "client", "--driver-memory", heap]
    own += ["--driver-class-path", jars]
    entry = Path(settings.BASE_DIR) / "ingest" / "driver" / "main.py"
    return SubmitCommand(
        program=[
            str(spark_home() / "bin" / "spark-submit"),
            "--master",
            settings.SLUICE_SPARK_MASTER,
            *own,
        ],
        script=[str(entry), "--once", *_options()],
        environment=_environment(home) | {"SPARK_HOME": str(spark_home())},
        instance=instance_of(place_of(home)),
        records=home / "run" / "submitted",
        door=home / "run" / "door" / "control.sock",
        log_file=home / "logs" / "driver.log",
        scratch=home / "tmp" / "driver",
        silence_seconds=settings.SLUICE_LEASE_SECONDS / 2,
    )


def spark_home() -> Path:
    """Of the pyspark package: it is a whole Spark."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise TerminalError("pyspark is not installed", hint="run `make setup`")
    return Path(found.origin).parent


def require_parts() -> None:
    for jar in settings.SLUICE_SPARK_JARS.split(os.pathsep):
        if not Path(jar).is_file():
            raise TerminalError(
                Sentence("%(file)s is missing", file=jar), hint="run `make setup` first"
            )
    if settings.SLUICE_LAUNCHER == "submit" and not shutil.which("bash"):
        raise TerminalError("spark-submit wants bash", hint="install bash")


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
    environment = {key: os.environ[key] for key in _KEPT if key in os.environ}
    if settings.SLUICE_SPARK_SECRET:
        # where Spark itself looks for it, and hands it to executors
        environment["_SPARK_AUTH_SECRET"] = settings.SLUICE_SPARK_SECRET
    return environment | {
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": str(settings.BASE_DIR),
        # a script's own folder comes first otherwise, and hides modules of others
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": settings.SLUICE_DRIVER_HOST,
        "SLUICE_HOME": str(home),
    }
