"""A launcher whose jobs run in the Spark session of the tests, in lanes as in a driver."""

from __future__ import annotations

import dataclasses
import json
import queue
from typing import Any

from pyspark.sql import SparkSession

from ingest.contract.job import JobReport, JobSpec, SecretAnswer, encode, spec_from
from ingest.jobs.drivers.launcher import CancelMode, Message, MessageKind, Survivor
from ingest.spark.lanes import Lanes
from ingest.spark.secrets import Secrets


class SessionLauncher:
    """The port's messages, in one process: nothing dies here."""

    def __init__(self, spark: SparkSession) -> None:
        self.is_running = False
        self.pid: int | None = None
        self._lines: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._secrets = Secrets(lambda ref: self._say("secret_request", ref=ref))
        self._lanes = Lanes(
            spark, secrets=self._secrets.ask, report=self._report, say=self._log
        )

    def survivors(self) -> list[Survivor]:
        return []

    def start(self, incarnation: str) -> None:
        self.is_running = True
        self._say("ready", pid=0, versions={})

    def submit(self, spec: JobSpec, *, isolated: bool) -> None:
        # as it goes through a pipe
        sent = spec_from(json.loads(encode(spec)))
        self._say("accepted", job_id=sent.job_id, attempt=sent.attempt)
        self._lanes.submit(sent)

    def cancel(self, job_id: str, mode: CancelMode) -> None:
        self._lanes.stop(job_id, "pause" if mode == "pause" else "cancel")

    def give_secret(self, answer: SecretAnswer, *, origin: str) -> None:
        self._secrets.hear(answer)

    def ping(self) -> None:
        jobs = [dataclasses.asdict(one) for one in self._lanes.progress()]
        self._say("heartbeat", at=0.0, jobs=jobs, jobs_abandoned=[])

    def poll(self, seconds: float) -> list[Message]:
        found = []
        try:
            found.append(self._lines.get(timeout=seconds))
            while True:
                found.append(self._lines.get_nowait())
        except queue.Empty:
            return found

    def kill(self, origin: str = "") -> None:
        raise AssertionError(f"the session of the tests is not to be killed: {origin}")

    def stop(self) -> None:
        self._lanes.stop_all("cancel")
        self.is_running = False

    def _report(self, report: JobReport) -> None:
        self._say("report", report=json.loads(encode(report)))

    def _log(self, job_id: str, level: str, message: str) -> None:
        self._say("log", job_id=job_id, level=level, message=message)

    def _say(self, kind: MessageKind, **data: Any) -> None:
        self._lines.put(Message(kind, data))
