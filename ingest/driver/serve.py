"""The driver: messages in from its host's pipe, each job in a thread, reports out.

A driver without its host has no lease: it halts when the pipe closes or falls silent,
so it never writes unwatched. How many jobs of a lane run at once, the host decides
before it hands them over. It must not know what jobs do.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import platform
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import InheritableThread
from pyspark.sql import SparkSession

from core.control_channel.stdio import ControlPipe
from core.errors import SluiceError
from core.sentences import Sentence
from ingest.contract.applying import ApplyReport
from ingest.contract.job import (
    DRIVER_DIED,
    OUT_OF_MEMORY,
    ErrorFact,
    JobReport,
    JobSpec,
    Outcome,
    Progress,
    SecretAnswer,
    fact_of,
    spec_from,
)
from ingest.contract.members import value_of
from ingest.driver.apply.jobrun import Interrupted, JobRun, StopMode
from ingest.driver.capture.gate import SourceGates
from ingest.driver.capture.parallel import enter_lane
from ingest.driver.jvm import Jvm, failure_of
from ingest.driver.run import run_job
from ingest.driver.secrets import Secrets
from ingest.driver.sessions import ApplySessions, work_from

_READING = Sentence("out of memory while reading wide rows")
_WORKING = Sentence("out of memory while working on its rows")
_MORE_MEMORY = Sentence(
    "its jobs run in drivers of their own from now on; if one ends like this, too, give"
    " drivers more memory (SLUICE_DRIVER_MEMORY)"
)


log = logging.getLogger(__name__)
HEARTBEAT_SECONDS = 2.0
_SILENCE_SECONDS = 30.0
_STOP_SECONDS = 5.0
_HALTED = 70
# Tasks send their figures every ten seconds.
WORK_SECONDS = 10.0
_POLL_SECONDS = 0.2

# of a stage; a task that failed has done nothing
_FIGURES = (
    "numCompleteTasks",
    "inputRecords",
    "outputRecords",
    "shuffleReadRecords",
    "shuffleWriteRecords",
)


class SparkWork:
    """How much Spark has done for the jobs under one tag so far: grows while anything
    comes of them. Read from the figures that tasks send, on a cluster, too."""

    def __init__(self, spark: SparkSession, tag: str) -> None:
        context: Any = spark.sparkContext._jsc
        self._context = context.sc()
        self._tag = tag
        # stage → what was done in it; Spark forgets old stages
        self._done: dict[int, int] = {}
        self._ended: set[int] = set()

    def total(self) -> int:
        """Tasks and rows; never less than before."""
        tracker = self._context.statusTracker()
        for job in tracker.getJobIdsForTag(self._tag):
            if job not in self._ended:
                self._look(tracker, job)
        return sum(self._done.values())

    def _look(self, tracker: Any, job: int) -> None:
        found = tracker.getJobInfo(job)
        if found.isEmpty():
            return
        info = found.get()
        is_running = info.status().toString() in {"RUNNING", "UNKNOWN"}
        for stage in info.stageIds():
            self._done[stage] = max(self._done.get(stage, 0), self._of_stage(stage))
        if not is_running:
            self._ended.add(job)

    def _of_stage(self, stage: int) -> int:
        try:
            found = self._context.statusStore().lastStageAttempt(stage)
        except Py4JJavaError:
            return 0  # skipped, or forgotten
        return sum(int(getattr(found, name)()) for name in _FIGURES)


class RunningJobs:
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
        self._lock = threading.Lock()
        self._runs: list[JobRun] = []
        self._abandoned: list[JobRun] = []
        self._at_work: set[JobRun] = set()
        self._last_at_work: set[JobRun] | None = None
        self._work: dict[JobRun, SparkWork] = {}

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
        self._stop_runs(runs, mode)

    def _stop_runs(self, runs: Sequence[JobRun], mode: StopMode) -> None:
        for run in runs:
            # stoppers talk to the source: the pipe must not wait for them
            InheritableThread(
                target=run.request_stop, args=(mode,), daemon=True
            ).start()

    def abandon(self, job_id: str) -> None:
        """Every attempt of the job is over for the host, which has judged it, though
        its threads answer nothing: nothing is reported of it again. Another job of its
        table waits until those threads have ended."""
        with self._lock:
            runs = [r for r in self._runs if r.spec.job_id == job_id]
            for run in runs:
                self._runs.remove(run)
                self._abandoned.append(run)
            self._at_work.difference_update(runs)
        self._stop_runs(runs, "cancel")
        for run in runs:
            log.error("job %s is abandoned in %s", job_id, run.progress.phase)

    def abandoned(self) -> list[str]:
        """Jobs whose threads live on."""
        with self._lock:
            return [run.spec.job_id for run in self._abandoned]

    def stop_all(self, mode: StopMode) -> None:
        for progress in self.progress():
            self.stop(progress.job_id, mode)

    def progress(self) -> list[Progress]:
        with self._lock:
            return [run.progress for run in self._runs]

    def look_at_work(self) -> None:
        """Tells each job of which nothing came lately what Spark has done for it."""
        with self._lock:
            work = list(self._work.items())
        for run, done in work:
            if run.still_seconds >= WORK_SECONDS:
                run.note_work(done.total())

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
        if report.error is not None and report.error.code == DRIVER_DIED:
            report = self._explained(run, report)
        with self._lock:
            is_over = run in self._abandoned
            (self._abandoned if is_over else self._runs).remove(run)
            self._work.pop(run, None)
            self._at_work.discard(run)
        if not is_over:
            self._report(report)

    def _explained(self, run: JobRun, report: JobReport) -> JobReport:
        """A JVM without memory says nothing any more; when one job alone was at work
        in it, that one has used it up."""
        if not Jvm(self._spark).has_run_out_of_memory:
            return report
        with self._lock:
            if self._last_at_work is None:
                self._last_at_work = set(self._at_work)
            if self._last_at_work != {run}:
                return report
        is_reading = run.progress.phase == "reading"
        fact = ErrorFact(
            OUT_OF_MEMORY, _READING if is_reading else _WORKING, _MORE_MEMORY
        )
        return dataclasses.replace(report, error=fact)

    def _run(self, run: JobRun) -> JobReport:
        try:
            self._wait_for_turn(run)
        except Interrupted as stopped:
            return _ended(run, stopped)
        context = self._spark.sparkContext
        try:
            enter_lane(run)
            with self._lock:
                self._work[run] = SparkWork(self._spark, run.tag)
            with run.stopped_by(lambda: context.cancelJobsWithTag(run.tag)):
                return run_job(run, self._spark, self._gates)
        except Interrupted as stopped:
            return _ended(run, stopped)

    def _wait_for_turn(self, run: JobRun) -> None:
        """Older attempts of the job end first."""
        while self._has_older(run):
            run.explain(Sentence("waits for an earlier attempt to end"))
            time.sleep(_POLL_SECONDS)
            run.check()
        with self._lock:
            if run in self._abandoned:
                raise Interrupted("cancel")
            self._at_work.add(run)
        run.explain("")

    def _has_older(self, run: JobRun) -> bool:
        """An earlier attempt of the job, or an abandoned job of its table: both would
        write the same files."""
        table = run.spec.table.table_id
        with self._lock:
            if run in self._abandoned:
                return False
            older = self._runs[: self._runs.index(run)]
            abandoned = [r.spec.table.table_id for r in self._abandoned]
        return table in abandoned or any(_is_same(r, run.spec) for r in older)


def _is_same(run: JobRun, spec: JobSpec) -> bool:
    return run.spec.job_id == spec.job_id


def _ended(run: JobRun, stopped: Interrupted) -> JobReport:
    outcome: Outcome = "paused" if stopped.mode == "pause" else "cancelled"
    return JobReport(run.spec.job_id, run.spec.attempt, outcome)


class Driver:
    """Serves one pipe. Times are monotonic: a clock jump must not halt it."""

    def __init__(
        self, spark: SparkSession, pipe: ControlPipe, *, is_single: bool = False
    ) -> None:
        self._spark = spark
        self._jvm = Jvm(spark)
        self._pipe = pipe
        self._is_single = is_single
        self._silence = _SILENCE_SECONDS
        self._secrets = Secrets(self._ask)
        self._ended = threading.Event()
        self._lanes = RunningJobs(
            spark,
            secrets=self._secrets.ask,
            report=self._send_report,
            say=self._send_log,
        )
        self._sessions = ApplySessions(
            spark, secrets=self._secrets.ask, report=self._send_applied
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
        elif kind == "apply":
            self._apply(message)
        elif kind == "secret":
            self._receive_secret(message)
        return True

    def _apply(self, message: Mapping[str, Any]) -> None:
        try:
            work = work_from(message.get("work") or {})
        except SluiceError as error:
            # its host ends a driver whose session does not report
            log.error("%s", error.message)
            return
        self._sessions.set(work)

    def _stop(self, job_id: str, mode: object) -> None:
        if mode == "abandon":
            self._lanes.abandon(job_id)
        else:
            self._lanes.stop(job_id, "pause" if mode == "pause" else "cancel")

    def _receive_secret(self, message: Mapping[str, Any]) -> None:
        told = {name: value for name, value in message.items() if name != "type"}
        try:
            answer = value_of(SecretAnswer, told)
        except ValueError as error:
            # its asker ends by its time-out
            log.error("a malformed secret came over the pipe: %s", type(error))
            return
        self._secrets.receive(answer)

    def _run(self, message: Mapping[str, Any]) -> None:
        data = message.get("spec") or {}
        try:
            spec = spec_from(data)
        except SluiceError as error:
            report = JobReport(
                str(data.get("job_id", "")),
                int(data.get("attempt", 0)),
                "invalid_request",
                error=fact_of(error),
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

    def _send_applied(self, report: ApplyReport) -> None:
        with contextlib.suppress(OSError):
            self._pipe.send("applied", report=dataclasses.asdict(report))

    def _send_log(self, job_id: str, level: str, message: str) -> None:
        with contextlib.suppress(OSError):
            self._pipe.send("log", job_id=job_id, level=level, message=message)

    def _beat(self) -> None:
        while not self._ended.wait(HEARTBEAT_SECONDS):
            if self._pipe.silent_for() > self._silence:
                self.halt(f"nothing received for {self._silence:g} s")
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
        self._sessions.end(_STOP_SECONDS)
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
