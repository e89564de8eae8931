"""A standalone Spark cluster on loopback: a master and one worker of the package."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from config.toolchain.paths import pyspark_home
from ingest.driver_host.cluster import MasterAway, StandaloneMaster
from tests.ports import free_port
from tests.waiting import wait_for

SECRET = "only-drivers-and-executors-know"


def wait_until(is_so: Callable[[], object], what: str) -> None:
    wait_for(is_so, what, pause=0.2)


class StandaloneCluster:
    """Both take part only with the secret, as a cluster of several machines would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.web_port = free_port(), free_port()
        self.url = f"spark://127.0.0.1:{self.port}"
        self.web = f"http://127.0.0.1:{self.web_port}"
        self._master: subprocess.Popen[bytes] | None = None
        self._worker: subprocess.Popen[bytes] | None = None
        self.start_master()
        self._worker = self._start(
            "worker.Worker",
            *("--host", "127.0.0.1", "--webui-port", str(free_port())),
            *("--cores", "2", "--memory", "2g", "--work-dir", str(folder / "work")),
            self.url,
        )

    def start_master(self) -> None:
        ports = ("--port", str(self.port), "--webui-port", str(self.web_port))
        self._master = self._start("master.Master", "--host", "127.0.0.1", *ports)
        wait_until(self._answers, "the master does not come up")

    def kill_master(self) -> None:
        assert self._master is not None
        self._master.kill()
        self._master.wait()

    def end(self) -> None:
        for process in (self._worker, self._master):
            if process is not None:
                process.kill()
                process.wait()

    def _answers(self) -> bool:
        try:
            StandaloneMaster(self.web, instance="none").apps()
        except MasterAway:
            return False
        return True

    def _start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        options = f"-Dspark.authenticate=true -Dspark.authenticate.secret={SECRET}"
        environment = {
            **os.environ,
            "SPARK_HOME": str(pyspark_home()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "200m",
            "SPARK_DAEMON_JAVA_OPTS": f"{options} -Dspark.network.crypto.enabled=true",
        }
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [
                    str(pyspark_home() / "bin" / "spark-class"),
                    f"org.apache.spark.deploy.{name}",
                    *arguments,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
