"""Running jobs side by side in lanes, each with its own limit.

A load that takes hours must not stop fresh changes of other tables. It must not
know the control pipe: it gets specs and gives reports back.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from ingest.contract import JobReport, JobSpec, Progress
from ingest.spark.gate import SourceGates
from ingest.spark.jobrun import Interrupted, JobRun, StopMode
from ingest.spark.jobs import run_job
from ingest.spark.parallel import enter_lane

LIMITS = {"apply": 4, "snapshot": 4, "maintenance": 1, "interactive": 2}
_POLL_SECONDS = 0.2

log = logging.getLogger(__name__)


class Lanes:
    """Jobs of one driver. `report` is called once per accepted job."""

    def __init__(
        self,
        spark: SparkSession,
        *,
        secrets: Callable[[str], str],
        report: Callable[[JobReport], None],
    ) -> None:
        self._spark = spark
        self._secrets = secrets
        self._report = report
        self._gates = SourceGates()
        self._places = {k: threading.Semaphore(n) for k, n in LIMITS.items()}
        self._lock = threading.Lock()
        self._runs: dict[str, JobRun] = {}

    def submit(self, spec: JobSpec) -> bool:
        """False when this job runs already (a repeated message)."""
        run = JobRun(spec, self._secrets)
        with self._lock:
            if spec.job_id in self._runs:
                return False
            self._runs[spec.job_id] = run
        InheritableThread(target=self._serve, args=(run,), daemon=True).start()
        return True

    def stop(self, job_id: str, mode: StopMode) -> bool:
        """Asks a job to end; False when it is not here."""
        with self._lock:
            run = self._runs.get(job_id)
        if run is None:
            return False
        # stoppers talk to the source: the pipe must not wait for them
        threading.Thread(target=run.request_stop, args=(mode,), daemon=True).start()
        return True

    def stop_all(self, mode: StopMode) -> None:
        for progress in self.progress():
            self.stop(progress.job_id, mode)

    def progress(self) -> list[Progress]:
        with self._lock:
            return [run.progress for run in self._runs.values()]

    def _serve(self, run: JobRun) -> None:
        report = self._run(run)
        with self._lock:
            del self._runs[run.spec.job_id]
        self._report(report)

    def _run(self, run: JobRun) -> JobReport:
        place = self._places.get(run.spec.lane, self._places["interactive"])
        try:
            while not place.acquire(timeout=_POLL_SECONDS):
                run.check()
        except Interrupted as stopped:
            outcome = "paused" if stopped.mode == "pause" else "cancelled"
            return JobReport(run.spec.job_id, run.spec.attempt, outcome)  # type: ignore[arg-type]
        try:
            enter_lane(run)
            context = self._spark.sparkContext
            with run.stopped_by(lambda: context.cancelJobsWithTag(run.tag)):
                return run_job(run, self._spark, self._gates)
        except Interrupted as stopped:
            outcome = "paused" if stopped.mode == "pause" else "cancelled"
            return JobReport(run.spec.job_id, run.spec.attempt, outcome)  # type: ignore[arg-type]
        finally:
            place.release()
