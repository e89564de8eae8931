"""The driver between control pipe and lanes: messages in, reports out.

A driver without its host has no lease: it halts when the pipe closes or falls
silent, so it never writes unwatched. It must not know what jobs do.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import platform
import threading
import time
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from core.errors import SluiceError
from ingest.contract.job import (
    ErrorFact,
    JobReport,
    answer_from,
    spec_from,
)
from ingest.driver.control import Control
from ingest.driver.jvm import Jvm
from ingest.driver.lanes import WORK_SECONDS, Lanes
from ingest.driver.secrets import Secrets

HEARTBEAT_SECONDS = 2.0
_SILENCE_SECONDS = 30.0
_STOP_SECONDS = 5.0
_HALTED = 70

log = logging.getLogger(__name__)


class Driver:
    """Serves one pipe. Times are monotonic: a clock jump must not halt it."""

    def __init__(
        self, spark: SparkSession, pipe: Control, *, is_single: bool = False
    ) -> None:
        self._spark = spark
        self._jvm = Jvm(spark)
        self._pipe = pipe
        self._is_single = is_single
        self._silence = _SILENCE_SECONDS
        self._secrets = Secrets(self._ask)
        self._ended = threading.Event()
        self._lanes = Lanes(
            spark,
            secrets=self._secrets.ask,
            report=self._send_report,
            say=self._send_log,
        )

    def serve(self) -> int:
        """Blocks until `stop`; every other end halts the process."""
        for task in (self._beat, self._look_at_work):
            threading.Thread(target=task, daemon=True).start()
        self._pipe.send("ready", pid=os.getpid(), versions=self._versions())
        for message in self._pipe.messages():
            if not self._handle(message):
                self._finish()
                return 0
        self.halt("the control pipe closed")
        return _HALTED

    def halt(self, why: str) -> None:
        """Ends JVM and process at once, without giving a commit time to finish."""
        log.error("driver halts: %s", why)
        with contextlib.suppress(Exception):
            self._jvm.kill()
        os._exit(_HALTED)

    def _handle(self, message: Mapping[str, Any]) -> bool:
        kind = message.get("type")
        if kind == "stop":
            return False
        if kind == "hello":
            self._silence = float(message.get("silence_seconds", self._silence))
        elif kind == "run":
            self._run(message)
        elif kind == "cancel":
            self._stop(str(message.get("job_id")), message.get("mode"))
        elif kind == "secret":
            self._hear_secret(message)
        return True

    def _stop(self, job_id: str, mode: object) -> None:
        if mode == "abandon":
            self._lanes.abandon(job_id)
        else:
            self._lanes.stop(job_id, "pause" if mode == "pause" else "cancel")

    def _hear_secret(self, message: Mapping[str, Any]) -> None:
        told = {name: value for name, value in message.items() if name != "type"}
        try:
            answer = answer_from(told)
        except TypeError as error:
            # its asker ends by its time-out
            log.error("a malformed secret came over the pipe: %s", type(error))
            return
        self._secrets.hear(answer)

    def _run(self, message: Mapping[str, Any]) -> None:
        data = message.get("spec") or {}
        try:
            spec = spec_from(data)
        except SluiceError as error:
            fact = ErrorFact(error.code, error.message, error.hint)
            report = JobReport(
                str(data.get("job_id", "")),
                int(data.get("attempt", 0)),
                "invalid_request",
                error=fact,
            )
            self._send_report(report)
            return
        self._pipe.send("accepted", job_id=spec.job_id, attempt=spec.attempt)
        if not self._ended.is_set():
            self._lanes.submit(spec)

    def _ask(self, ref: str) -> None:
        self._pipe.send("secret_request", ref=ref)

    def _send_report(self, report: JobReport) -> None:
        with contextlib.suppress(OSError):
            self._pipe.send("report", report=dataclasses.asdict(report))
        if self._is_single:
            self._ended.set()

    def _send_log(self, job_id: str, level: str, message: str) -> None:
        with contextlib.suppress(OSError):
            self._pipe.send("log", job_id=job_id, level=level, message=message)

    def _beat(self) -> None:
        while not self._ended.wait(HEARTBEAT_SECONDS):
            if self._pipe.silent_for() > self._silence:
                self.halt(f"nothing heard for {self._silence:g} s")
            if not self._jvm.is_alive:
                self.halt("the JVM ended")
            jobs = [dataclasses.asdict(p) for p in self._lanes.progress()]
            try:
                self._pipe.send(
                    "heartbeat",
                    at=time.time(),
                    jobs=jobs,
                    jobs_abandoned=self._lanes.abandoned(),
                )
            except OSError:
                self.halt("the control pipe has no reader")
        if self._is_single:
            self._pipe.flush(self._silence)
            os._exit(self._close())

    def _look_at_work(self) -> None:
        """Apart from the heartbeat: the JVM may take its time to answer."""
        while not self._ended.wait(WORK_SECONDS):
            try:
                self._lanes.look_at_work()
            except Exception as error:  # noqa: BLE001 - only figures for people
                log.info("what Spark has done is not known: %s", error)

    def _finish(self) -> None:
        """Jobs that still run end as paused: what they staged is kept."""
        self._lanes.stop_all("pause")
        deadline = time.monotonic() + _STOP_SECONDS
        while self._lanes.progress() and time.monotonic() < deadline:
            time.sleep(0.1)
        os._exit(self._close())

    def _close(self) -> int:
        with contextlib.suppress(Exception):
            self._spark.stop()
        with contextlib.suppress(Exception):
            self._jvm.kill()
        return 0

    def _versions(self) -> dict[str, str]:
        jvm: Any = self._spark._jvm
        return {
            "spark": self._spark.version,
            "java": str(jvm.java.lang.System.getProperty("java.version")),
            "scala": str(jvm.scala.util.Properties.versionNumberString()),
            "python": platform.python_version(),
        }
