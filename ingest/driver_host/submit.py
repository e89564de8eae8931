"""Every job in a Spark application of its own, started by `spark-submit`.

The application outlives a host that is killed: what was submitted is written down
before it starts and carries its tag, the next host finds it by both, and its driver
comes back through the control door. It ends by itself when no host comes. A dead
driver counts as dead only when the cluster's master says so too. Knows nothing of rows.
"""

from __future__ import annotations

import json
import logging
import queue
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.files import write_private
from core.processes.child import ChildSpec, spawn
from ingest.contract.applying import ApplyWork
from ingest.contract.driver_size import arguments_for
from ingest.contract.java import driver_options
from ingest.contract.job import JobSpec, SecretAnswer, Survivor
from ingest.driver_host.cluster import Cluster, tag_of
from ingest.driver_host.cluster_watch import ClusterWatch, confirm_gone
from ingest.driver_host.control_socket import Connection, ControlDoor, Greeting
from ingest.driver_host.launcher import (
    MARK,
    CancelMode,
    Message,
    drain,
    mark_of,
    message_from,
    run_order,
    secret_order,
)

log = logging.getLogger(__name__)

STOP_SECONDS = 8.0
BEAT_SECONDS = 2.0
LOOK_SECONDS = 0.5
HEARD_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class SubmitCommand:
    """How to submit. `environment` is complete: nothing is inherited.

    program  `spark-submit` with all options of its own
    script   what it runs, with the arguments that every job shares
    records  a folder with one file per submission that has not surely ended
    door     the socket that drivers come back to
    scratch  where each gets a folder that goes when it has ended
    """

    program: Sequence[str]
    script: Sequence[str]
    environment: Mapping[str, str]
    instance: str
    records: Path
    door: Path
    log_file: Path
    scratch: Path
    silence_seconds: float = 15.0


@dataclass(slots=True)
class _Work:
    """One submission. spec: None while it is not known again after a restart."""

    job_id: str
    attempt: int
    tag: str
    spec: JobSpec | None = None
    connection: Connection | None = None

    def send(self, data: Mapping[str, Any]) -> None:
        if self.connection is not None:
            self.connection.send(data)


class SubmitLauncher:
    """See `Launcher`. Without a warm driver `start` opens the door and says ready."""

    def __init__(self, command: SubmitCommand, cluster: Cluster | None) -> None:
        self._command = command
        self._cluster = cluster
        self._lines: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._works: dict[str, _Work] = {}
        self._lock = threading.RLock()
        self._door: ControlDoor | None = None
        self._stopping = threading.Event()
        self._beaten = 0.0

    @property
    def can_apply(self) -> bool:
        return False

    @property
    def is_running(self) -> bool:
        return self._door is not None

    @property
    def pid(self) -> int | None:
        return None

    def survivors(self) -> list[Survivor]:
        return [Survivor(work.job_id, work.attempt) for work in self._recorded()]

    def start(self, incarnation: str) -> None:
        self._stopping.clear()
        found = self._recorded()
        for folder in self._command.scratch.glob(f"sluice-{self._command.instance}-*"):
            if folder.name not in self._tags():
                shutil.rmtree(folder, ignore_errors=True)
        for work in found:
            log.warning("found %s of an earlier host again", work.tag)
            self._works[work.job_id] = work
        self._door = ControlDoor(self._command.door, admit=self._admit, hear=self._hear)
        for work in found:
            self._watch(work)
        if self._cluster is None:
            self._lines.put(Message("ready"))
            return
        ClusterWatch(
            self._cluster, known=self._tags, say=self._lines.put, stop=self._stopping
        ).start()

    def submit(self, spec: JobSpec, *, isolated: bool) -> None:
        with self._lock:
            work = self._works.get(spec.job_id)
            if work is not None and work.attempt == spec.attempt:
                work.spec = spec
                work.send(run_order(spec))
                return
            if work is not None:
                mark_of(work.tag).kill()  # its watcher sees it to its end
            tag = tag_of(self._command.instance, spec.job_id, str(spec.attempt))
            work = _Work(spec.job_id, spec.attempt, tag, spec)
            self._works[spec.job_id] = work
        try:
            self._write(work)
            self._spawn(work)
        except OSError:
            # as one that dies at once: its watcher says so
            log.exception("%s could not be started", tag)
        self._watch(work)

    def cancel(self, job_id: str, mode: CancelMode) -> None:
        if work := self._works.get(job_id):
            work.send({"type": "cancel", "job_id": job_id, "mode": mode})

    def apply(self, work: ApplyWork) -> None:
        """There is no driver that lives without a job."""

    def give_secret(self, answer: SecretAnswer, *, origin: str) -> None:
        if work := self._works.get(origin):
            work.send(secret_order(answer))

    def ping(self) -> None:
        for work in list(self._works.values()):
            work.send({"type": "ping", "at": time.time()})

    def poll(self, seconds: float) -> list[Message]:
        found = drain(self._lines, seconds)
        for message in found:
            if message.kind == "died":
                self._forget_dead(message)
        now = time.monotonic()
        if self.is_running and now - self._beaten >= BEAT_SECONDS:
            self._beaten = now
            found.append(Message("heartbeat", {"jobs": []}))
        return found

    def wake(self) -> None:
        self._lines.put(Message("woken"))

    def kill(self, origin: str = "") -> None:
        if work := self._works.get(origin):
            mark_of(work.tag).kill()

    def stop(self) -> None:
        """Those that end in time are forgotten; the record of any other stays, and the
        next host asks the master what became of it."""
        self._stopping.set()
        works = list(self._works.values())
        for work in works:
            work.send({"type": "stop"})
        until = time.monotonic() + STOP_SECONDS
        for work in works:
            mark = mark_of(work.tag)
            while mark.has_leader() and time.monotonic() < until:
                time.sleep(0.05)
            mark.kill()
            mark.wait_gone(seconds=5)
            if self._is_surely_gone(work):
                self._forget(work)
        self._works.clear()
        if self._door is not None:
            self._door.close()
            self._door = None

    # ------------------------------------------------------------ one submission

    def _spawn(self, work: _Work) -> None:
        command = self._command
        scratch = command.scratch / work.tag
        scratch.mkdir(parents=True, exist_ok=True)
        mine = ["--scratch", str(scratch), "--control", str(command.door)]
        mine += ["--job", work.job_id, "--attempt", str(work.attempt)]
        tag = ["--name", work.tag]
        mine += tag  # Spark takes the session's word above that of its command line
        jvm = ["--driver-java-options", driver_options(str(scratch))]
        driver = work.spec.driver if work.spec else None
        mine += arguments_for(driver, is_cluster=self._cluster is not None)
        if driver is not None and self._cluster is None:
            # this JVM is there before the script can say anything
            jvm += ["--driver-memory", driver.memory]
        process = spawn(
            ChildSpec(
                name=work.tag,
                command=[*command.program, *jvm, *tag, *command.script, *mine],
                environment={**command.environment, MARK: work.tag},
                inherits="nothing",
                log=command.log_file,
                death_signal=None,  # the next host finds it again
            )
        )
        # nobody else reaps it while we live
        threading.Thread(target=process.wait, daemon=True).start()

    def _watch(self, work: _Work) -> None:
        name = f"watch-{work.job_id}"
        threading.Thread(
            target=self._await_end, args=(work,), name=name, daemon=True
        ).start()

    def _await_end(self, work: _Work) -> None:
        mark = mark_of(work.tag)
        while mark.has_leader():
            if self._stopping.wait(LOOK_SECONDS):
                return
        mark.kill()
        mark.wait_gone(seconds=10)

        def unreachable(why: str) -> None:
            self._lines.put(Message("unreachable", {"why": why}, work.job_id))

        if self._cluster is not None and not confirm_gone(
            self._cluster, work.tag, unreachable=unreachable, stop=self._stopping
        ):
            return
        if self._works.get(work.job_id) is work:
            # what it said last is still read by another thread
            if work.connection is not None:
                work.connection.wait_heard(HEARD_SECONDS)
            # the next attempt may be there before this is heard
            facts = {"code": None, "attempt": work.attempt}
            self._lines.put(Message("died", facts, work.job_id))
        else:
            self._forget(work)

    def _is_surely_gone(self, work: _Work) -> bool:
        if self._cluster is None:
            return not mark_of(work.tag).pids()
        stop = threading.Event()
        return confirm_gone(
            self._cluster, work.tag, unreachable=lambda why: stop.set(), stop=stop
        )

    def _admit(self, who: Greeting, connection: Connection) -> bool:
        with self._lock:
            work = self._works.get(who.job_id)
            if work is None or work.attempt != who.attempt or self._stopping.is_set():
                return False
            work.connection = connection
            if who.is_accepted:
                told = {"job_id": who.job_id, "attempt": who.attempt}
                self._lines.put(Message("accepted", told, who.job_id))
            silence = self._command.silence_seconds
            work.send({"type": "hello", "silence_seconds": silence})
            if work.spec is not None:
                work.send(run_order(work.spec))
        return True

    def _hear(self, job_id: str, attempt: int, data: dict[str, Any]) -> None:
        work = self._works.get(job_id)
        if work is None or work.attempt != attempt:
            return
        if message := message_from(data, job_id):
            self._lines.put(message)

    # ------------------------------------------------------------------ records

    def _tags(self) -> set[str]:
        """Of the records, so those of attempts that are about to end too."""
        return {path.stem for path in self._command.records.glob("*.json")}

    def _write(self, work: _Work) -> None:
        """Durable before it runs: an application that nobody knows has no owner."""
        facts = {"job_id": work.job_id, "attempt": work.attempt, "tag": work.tag}
        write_private(self._record_of(work), json.dumps(facts))

    def _recorded(self) -> list[_Work]:
        """Of a job with several attempts on record, the newest comes last."""
        found = (_read(path) for path in self._command.records.glob("*.json"))
        works = (work for work in found if work is not None)
        return sorted(works, key=lambda work: (work.job_id, work.attempt))

    def _record_of(self, work: _Work) -> Path:
        return self._command.records / f"{work.tag}.json"

    def _forget_dead(self, message: Message) -> None:
        work = self._works.get(message.origin)
        if work is not None and work.attempt == message.data.get("attempt"):
            self._forget(work)

    def _forget(self, work: _Work) -> None:
        with self._lock:
            if self._works.get(work.job_id) is work:
                del self._works[work.job_id]
        if work.connection is not None:
            work.connection.close()
        shutil.rmtree(self._command.scratch / work.tag, ignore_errors=True)
        self._record_of(work).unlink(missing_ok=True)


def _read(path: Path) -> _Work | None:
    try:
        told = json.loads(path.read_text())
        return _Work(str(told["job_id"]), int(told["attempt"]), str(told["tag"]))
    except (OSError, ValueError, KeyError, TypeError):
        log.exception("the record %s cannot be read", path)
        return None
