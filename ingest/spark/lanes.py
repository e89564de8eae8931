"""Running jobs side by side in lanes, each with its own limit.

A load that takes hours must not stop fresh changes of other tables. It must not
know the control pipe: it gets specs and gives reports back.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from ingest.contract import JobReport, JobSpec, Outcome, Progress, SecretAnswer
from ingest.spark.failures import failure_of
from ingest.spark.gate import SourceGates
from ingest.spark.jobrun import Interrupted, JobRun, StopMode
from ingest.spark.jobs import run_job
from ingest.spark.parallel import enter_lane

log = logging.getLogger(__name__)

LIMITS = {"apply": 4, "snapshot": 4, "maintenance": 1, "interactive": 2}
_POLL_SECONDS = 0.2


class Lanes:
    """Jobs of one driver. `report` is called once per accepted attempt, `say` for
    every line of a job's log (job id, level, message)."""

    def __init__(
        self,
        spark: SparkSession,
        *,
        secrets: Callable[[str], SecretAnswer],
        report: Callable[[JobReport], None],
        say: Callable[[str, str, str], None],
    ) -> None:
        self._spark = spark
        self._secrets = secrets
        self._report = report
        self._say = say
        self._gates = SourceGates()
        self._places = {k: threading.Semaphore(n) for k, n in LIMITS.items()}
        self._lock = threading.Lock()
        self._runs: list[JobRun] = []

    def submit(self, spec: JobSpec) -> bool:
        """False when this attempt is here already (a repeated message)."""

        def say(level: str, message: str) -> None:
            self._say(spec.job_id, level, message)

        run = JobRun(spec, self._secrets, say)
        with self._lock:
            if any(
                _is_same(r, spec) and r.spec.attempt == spec.attempt for r in self._runs
            ):
                return False
            self._runs.append(run)
        InheritableThread(target=self._serve, args=(run,), daemon=True).start()
        return True

    def stop(self, job_id: str, mode: StopMode) -> None:
        """Asks every attempt of a job to end."""
        with self._lock:
            runs = [r for r in self._runs if r.spec.job_id == job_id]
        for run in runs:
            # stoppers talk to the source: the pipe must not wait for them
            InheritableThread(
                target=run.request_stop, args=(mode,), daemon=True
            ).start()

    def stop_all(self, mode: StopMode) -> None:
        for progress in self.progress():
            self.stop(progress.job_id, mode)

    def progress(self) -> list[Progress]:
        with self._lock:
            return [run.progress for run in self._runs]

    def _serve(self, run: JobRun) -> None:
        try:
            report = self._run(run)
        except Exception as error:  # a defect of ours: the job must not go on for ever
            log.exception("job %s", run.spec.job_id)
            failure = failure_of(error)
            report = JobReport(
                run.spec.job_id,
                run.spec.attempt,
                failure.outcome,
                error=failure.error,
            )
        with self._lock:
            self._runs.remove(run)
        self._report(report)

    def _run(self, run: JobRun) -> JobReport:
        place = self._places.get(run.spec.lane, self._places["interactive"])
        try:
            self._wait_for_turn(run, place)
        except Interrupted as stopped:
            return _ended(run, stopped)
        context = self._spark.sparkContext
        try:
            enter_lane(run)
            with run.stopped_by(lambda: context.cancelJobsWithTag(run.tag)):
                return run_job(run, self._spark, self._gates)
        except Interrupted as stopped:
            return _ended(run, stopped)
        finally:
            place.release()

    def _wait_for_turn(self, run: JobRun, place: threading.Semaphore) -> None:
        """An older attempt of the job ends first, then a place must be free."""
        while self._has_older(run):
            time.sleep(_POLL_SECONDS)
            run.check()
        while not place.acquire(timeout=_POLL_SECONDS):
            run.explain(f"waits for a place in lane {run.spec.lane}")
            run.check()

    def _has_older(self, run: JobRun) -> bool:
        with self._lock:
            older = self._runs[: self._runs.index(run)]
        return any(_is_same(r, run.spec) for r in older)


def _is_same(run: JobRun, spec: JobSpec) -> bool:
    return run.spec.job_id == spec.job_id


def _ended(run: JobRun, stopped: Interrupted) -> JobReport:
    outcome: Outcome = "paused" if stopped.mode == "pause" else "cancelled"
    return JobReport(run.spec.job_id, run.spec.attempt, outcome)
