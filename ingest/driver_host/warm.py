"""The warm driver and its one-shot brothers as child processes with pipes.

No process outlives its host: each child dies with the host (death signal and end of
its stdin), and what an earlier host left behind is found by the pid file and killed
before anything starts. Knows nothing of rows.
"""

from __future__ import annotations

import json
import queue
import shutil
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.files import write_private
from core.processes.child import ChildSpec
from core.processes.identity import ProcessIdentity, wait_group_gone
from core.processes.talking import GROUP_SECONDS, TalkingChild, drain, end_all
from ingest.contract.applying import ApplyWork
from ingest.contract.driver_size import arguments_for
from ingest.contract.job import JobSpec, SecretAnswer
from ingest.contract.members import as_data
from ingest.driver_host.cluster import Cluster, confirm_gone, tag_of, watch
from ingest.driver_host.launcher import MARK, CancelMode, Message, mark_of, message_from

STOP_SECONDS = 8.0


@dataclass(frozen=True, slots=True)
class DriverCommand:
    """How to start a driver. `environment` is complete: nothing is inherited.

    scratch  where each process gets a folder (`--scratch`) that goes when it ends: a
             killed JVM leaves spilled blocks and unpacked libraries
    instance    with the incarnation the name of its applications on a cluster
    """

    program: Sequence[str]
    environment: Mapping[str, str]
    log_file: Path
    pid_file: Path
    scratch: Path
    instance: str = ""
    silence_seconds: float = 15.0
    is_cluster: bool = False


@dataclass(frozen=True, slots=True)
class _Driver:
    process: TalkingChild
    attempt: int
    incarnation: str


class WarmLauncher:
    """See `Launcher`. Call it from one thread; that one must live as long as it."""

    def __init__(self, command: DriverCommand, cluster: Cluster | None = None) -> None:
        self._command = command
        self._cluster = cluster
        self._stopping = threading.Event()
        self._is_watching = False
        self._lines: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._children: dict[str, _Driver] = {}
        self._next: dict[str, JobSpec] = {}
        self._incarnation = ""

    @property
    def is_running(self) -> bool:
        return "" in self._children

    @property
    def pid(self) -> int | None:
        child = self._children.get("")
        return child.process.pid if child else None

    def start(self, incarnation: str) -> None:
        self._stopping.clear()
        self._incarnation = incarnation
        self._spawn("", ["--warm"])
        if self._cluster is not None and not self._is_watching:
            self._is_watching = True
            threading.Thread(
                target=watch,
                args=(self._cluster,),
                kwargs={"known": self._tags, "stop": self._stopping},
                name="cluster-watch",
                daemon=True,
            ).start()

    def submit(self, spec: JobSpec, *, isolated: bool) -> None:
        origin = spec.job_id if isolated else ""
        child = self._children.get(origin)
        if isolated and child is not None and child.attempt != spec.attempt:
            # an earlier attempt that has not ended yet: its process takes no orders
            child.process.kill()
            self._next[origin] = spec
            return
        if isolated and child is None:
            is_cluster = self._command.is_cluster
            own = arguments_for(spec.driver, is_cluster=is_cluster)
            self._spawn(origin, ["--once", *own], attempt=spec.attempt)
        self._send(origin, {"type": "run", "spec": as_data(spec)})

    def cancel(self, job_id: str, mode: CancelMode) -> None:
        origin = job_id if job_id in self._children else ""
        self._send(origin, {"type": "cancel", "job_id": job_id, "mode": mode})

    def apply(self, work: ApplyWork) -> None:
        self._send("", {"type": "apply", "work": as_data(work)})

    def give_secret(self, answer: SecretAnswer, *, origin: str) -> None:
        self._send(origin, {"type": "secret", **as_data(answer)})

    def ping(self) -> None:
        for child in self._children.values():
            child.process.ping()

    def poll(self, seconds: float) -> list[Message]:
        found = drain(self._lines, seconds)
        for message in found:
            if message.kind == "died":
                self._forget(message.origin)
                if spec := self._next.pop(message.origin, None):
                    self.submit(spec, isolated=True)
        return found

    def wake(self) -> None:
        self._lines.put(Message("woken"))

    def kill(self, origin: str = "") -> None:
        self._next.pop(origin, None)
        if child := self._children.get(origin):
            child.process.kill()

    def stop(self) -> None:
        self._stopping.set()
        self._next.clear()
        children = [child.process for child in self._children.values()]
        end_all(children, seconds=STOP_SECONDS)
        self._children.clear()
        self._command.pid_file.unlink(missing_ok=True)

    def _spawn(self, origin: str, arguments: list[str], *, attempt: int = 0) -> None:
        command = self._command
        scratch = command.scratch / (origin or "warm")
        scratch.mkdir(parents=True, exist_ok=True)
        tag = self._tag(origin)
        own = [*arguments, "--scratch", str(scratch), "--name", tag]

        def hear(data: Mapping[str, Any]) -> None:
            if message := message_from(data, origin):
                self._lines.put(message)

        def ended(code: int | None) -> None:
            shutil.rmtree(scratch, ignore_errors=True)
            if self._is_surely_gone(origin, tag):
                # the next attempt may have been asked for before this is heard
                facts = {"attempt": attempt} if origin else {}
                self._lines.put(Message("died", {"code": code, **facts}, origin))

        process = TalkingChild(
            ChildSpec(
                name=f"driver-{origin or 'warm'}",
                command=[*command.program, *own],
                environment={**command.environment, MARK: self._incarnation},
                log=command.log_file,
            ),
            {"type": "hello", "silence_seconds": command.silence_seconds},
            hear=hear,
            ended=ended,
        )
        self._children[origin] = _Driver(process, attempt, self._incarnation)
        self._write_pid_file()
        process.talk()

    def _tag(self, origin: str) -> str:
        return tag_of(self._command.instance, origin, self._incarnation)

    def _tags(self) -> set[str]:
        """Of all children: one may have outlived the incarnation that started it."""
        instance = self._command.instance
        children = list(self._children.items())
        return {tag_of(instance, origin, c.incarnation) for origin, c in children}

    def _is_surely_gone(self, origin: str, tag: str) -> bool:
        """The process is; False when told to stop before the cluster could be asked."""

        def unreachable(why: str) -> None:
            self._lines.put(Message("unreachable", {"why": why}, origin))

        return self._cluster is None or confirm_gone(
            self._cluster, tag, unreachable=unreachable, stop=self._stopping
        )

    def _send(self, origin: str, data: Mapping[str, Any]) -> None:
        if child := self._children.get(origin):
            child.process.send(data)

    def _forget(self, origin: str) -> None:
        if self._children.pop(origin, None):
            self._write_pid_file()

    def _write_pid_file(self) -> None:
        """With the warm driver's identity first, as in every file of this kind."""
        warm = self._children.get("")
        children = [
            {
                "pid": driver.process.pid,
                "started": driver.process.identity.start_time,
                "job": origin,
                "boot": driver.incarnation,
            }
            for origin, driver in self._children.items()
        ]
        facts = {
            "pid": self.pid,
            "start_time": warm.process.identity.start_time if warm else 0.0,
            "boot": self._incarnation,
            "children": children,
        }
        write_private(self._command.pid_file, json.dumps(facts))


def kill_leftovers(pid_file: Path) -> list[int]:
    """End what an earlier host left: recorded pid, same start time, our mark."""
    try:
        recorded = json.loads(pid_file.read_text())
    except (OSError, ValueError):
        return []
    killed = []
    incarnation = recorded.get("boot", "")
    marks = {mark_of(incarnation)}
    for child in recorded.get("children", []):
        mark = mark_of(child.get("boot", incarnation))
        marks.add(mark)
        identity = ProcessIdentity(child["pid"], child["started"])
        process = identity.process()
        if process is not None and mark.is_on(process):
            identity.kill_group()
            wait_group_gone(identity.pid, seconds=GROUP_SECONDS)
            killed.append(identity.pid)
    # members of the incarnation whose leader died first still carry its mark
    for mark in marks:
        killed += mark.kill()
    pid_file.unlink(missing_ok=True)
    return killed
