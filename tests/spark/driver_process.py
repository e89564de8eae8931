"""A driver as a process of its own, with the host's side of its control pipe."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from ingest.contract.job import CLOCK, LAKE_SECRET, JobReport, JobSpec, report_from
from ingest.contract.members import as_data
from tests.processes import family, kill
from tests.waiting import LIMIT_SECONDS


class DriverProcess:
    """Pings until told not to; keeps every message it hears."""

    def __init__(
        self,
        jars: str,
        scratch: Path,
        secret: str,
        *,
        store: str = "",
        silence: float = 60.0,
    ) -> None:
        self.store = store
        self.scratch = scratch
        self.log = scratch / "driver.log"
        self.events = scratch / "events"
        self.events.mkdir(parents=True)
        self.secret = secret
        self.heard: list[dict[str, Any]] = []
        self._reports: dict[str, queue.SimpleQueue[JobReport]] = {}
        self._fresh = threading.Condition()
        self.is_pinging = True
        command = [sys.executable, "-m", "ingest.driver.main", "--warm", "--jars", jars]
        command += [
            "--scratch",
            str(scratch),
            "--memory",
            "900m",
            "--master",
            "local[2]",
        ]
        command += ["--conf", "spark.eventLog.enabled=true"]
        command += ["--conf", f"spark.eventLog.dir={self.events.as_uri()}"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=Path(__file__).parents[2],
                start_new_session=True,
            )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self.send({"type": "hello", "silence_seconds": silence})
        threading.Thread(target=self._ping, daemon=True).start()

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
        except (OSError, ValueError):  # it has ended, and the pipe to it is closed
            return

    def run(self, spec: JobSpec) -> None:
        self.send({"type": "run", "spec": as_data(spec)})

    def cancel(self, spec: JobSpec, mode: str = "cancel") -> None:
        self.send({"type": "cancel", "job_id": spec.job_id, "mode": mode})

    def wait_for(self, what: Any) -> dict[str, Any]:
        """The first message, heard or to come, for which `what(message)` is true."""
        until = time.monotonic() + LIMIT_SECONDS
        with self._fresh:
            while True:
                for message in self.heard:
                    if what(message):
                        return message
                # it ends once all that a dead driver said is heard
                assert self._listener.is_alive(), self.log.read_text()[-3000:]
                assert time.monotonic() < until, self.log.read_text()[-3000:]
                self._fresh.wait(1)

    def report(self, spec: JobSpec) -> JobReport:
        found = self.wait_for(
            lambda m: (
                m["type"] == "report"
                and (m["report"]["job_id"], m["report"]["attempt"])
                == (spec.job_id, spec.attempt)
            )
        )
        return report_from(found["report"])

    def has_ended(self, spec: JobSpec) -> bool:
        """Whether a report of the job was heard, of whatever attempt."""
        heard = (m["report"]["job_id"] for m in list(self.heard) if "report" in m)
        return spec.job_id in heard

    def progress(self, spec: JobSpec, phase: str) -> None:
        self.wait_for(
            lambda m: (
                m["type"] == "heartbeat"
                and any(
                    j["job_id"] == spec.job_id and j["phase"] == phase
                    for j in m["jobs"]
                )
            )
        )

    def family(self) -> list[psutil.Process]:
        return family(self.process.pid)

    def end(self) -> None:
        self.is_pinging = False
        kill(self.family())
        self.process.wait(LIMIT_SECONDS)
        # what it said last is heard, and nobody reads a pipe that is closed
        self._listener.join(LIMIT_SECONDS)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                # what was never read by the dead driver can not be written any more
                with suppress(BrokenPipeError):
                    stream.close()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)  # anything else on stdout is a failure
            if message["type"] == "secret_request":
                ref = message["ref"]
                now = datetime.now(UTC).isoformat()
                told = {LAKE_SECRET: self.store, CLOCK: now}
                value = told.get(ref, self.secret)
                self.send({"type": "secret", "ref": ref, "value": value})
            with self._fresh:
                self.heard.append(message)
                self._fresh.notify_all()

    def _ping(self) -> None:
        while self.process.poll() is None:
            if self.is_pinging:
                self.send({"type": "ping", "at": time.time()})
            time.sleep(0.5)
