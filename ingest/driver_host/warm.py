"""The warm driver and its one-shot brothers as child processes with pipes.

No process outlives its host: each child dies with the host (death signal and end of
its stdin), and what an earlier host left behind is found by the pid file and killed
before anything starts. Knows nothing of rows.
"""

from __future__ import annotations

import contextlib
import json
import logging
import queue
import shutil
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.control_channel.channel import Channel, PipeStream
from core.control_channel.framing import MalformedMessage
from core.files import write_private
from core.processes.child import Child, ChildSpec, spawn
from core.processes.identity import ProcessIdentity, wait_group_gone
from ingest.contract.applying import ApplyWork
from ingest.contract.driver_size import arguments_for
from ingest.contract.job import JobSpec, SecretAnswer
from ingest.driver_host.cluster import Cluster, tag_of
from ingest.driver_host.cluster_watch import confirm_gone, watch
from ingest.driver_host.launcher import (
    MARK,
    CancelMode,
    Message,
    apply_order,
    drain,
    mark_of,
    message_from,
    run_order,
    secret_order,
)

log = logging.getLogger(__name__)

STOP_SECONDS = 8.0
GROUP_SECONDS = 10.0


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


@dataclass(slots=True)
class _Driver:
    process: Child
    origin: str
    attempt: int
    incarnation: str
    scratch: Path
    lines: queue.SimpleQueue[Message]
    is_surely_gone: Callable[[], bool]
    channel: Channel = field(init=False)
    reader: threading.Thread = field(init=False)
    waiter: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.channel = Channel(PipeStream(self.process.stdout, self.process.stdin))
        name = f"driver-{self.origin or 'warm'}"
        self.reader = threading.Thread(target=self._read, name=name, daemon=True)
        self.waiter = threading.Thread(target=self._wait, name=name, daemon=True)
        self.reader.start()
        self.waiter.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            for data in self.channel.messages():
                if message := message_from(data, self.origin):
                    self.lines.put(message)

    def _wait(self) -> None:
        """Says `died` once nothing of the group can write any more. What the driver
        had started may hold its end of the pipe, so the end of the pipe says little.
        """
        code = self.process.wait()
        wait_group_gone(self.process.pid, seconds=GROUP_SECONDS)
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.reader.join(timeout=5)
        if self.is_surely_gone():
            facts = {"code": code}
            if self.origin:
                # the next attempt may have been asked for before this is heard
                facts["attempt"] = self.attempt
            self.lines.put(Message("died", facts, self.origin))

    def send(self, data: Mapping[str, Any]) -> None:
        try:
            self.channel.send(data)
        except MalformedMessage:
            log.exception("an order was not sent; its job will count as lost")
        except OSError:
            log.debug("driver %s does not listen any more", self.process.pid)

    def close(self) -> None:
        self.waiter.join(timeout=20)
        self.channel.close()


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
        self._send(origin, run_order(spec))

    def cancel(self, job_id: str, mode: CancelMode) -> None:
        origin = job_id if job_id in self._children else ""
        self._send(origin, {"type": "cancel", "job_id": job_id, "mode": mode})

    def apply(self, work: ApplyWork) -> None:
        self._send("", apply_order(work))

    def give_secret(self, answer: SecretAnswer, *, origin: str) -> None:
        self._send(origin, secret_order(answer))

    def ping(self) -> None:
        for child in self._children.values():
            child.send({"type": "ping", "at": time.time()})

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
        children = list(self._children.values())
        for child in children:
            child.send({"type": "stop"})
        until = time.monotonic() + STOP_SECONDS
        for child in children:
            if child.process.wait(until - time.monotonic()) is None:
                log.warning("driver %s did not stop, killing it", child.process.pid)
                child.process.kill()
            child.close()
        self._children.clear()
        self._command.pid_file.unlink(missing_ok=True)

    def _spawn(self, origin: str, arguments: list[str], *, attempt: int = 0) -> None:
        command = self._command
        scratch = command.scratch / (origin or "warm")
        scratch.mkdir(parents=True, exist_ok=True)
        tag = self._tag(origin)
        own = [*arguments, "--scratch", str(scratch), "--name", tag]
        process = spawn(
            ChildSpec(
                name=f"driver-{origin or 'warm'}",
                command=[*command.program, *own],
                environment={**command.environment, MARK: self._incarnation},
                inherits="nothing",
                log=command.log_file,
                has_pipes=True,
                death_signal=signal.SIGKILL,
            )
        )

        def is_surely_gone() -> bool:
            return self._is_surely_gone(origin, tag)

        self._children[origin] = _Driver(
            process,
            origin,
            attempt,
            self._incarnation,
            scratch,
            self._lines,
            is_surely_gone,
        )
        self._write_pid_file()
        silence = command.silence_seconds
        self._children[origin].send({"type": "hello", "silence_seconds": silence})

    def _tag(self, origin: str) -> str:
        return tag_of(self._command.instance, origin, self._incarnation)

    def _tags(self) -> set[str]:
        """Of all children: one may have outlived the incarnation that started it."""
        instance = self._command.instance
        children = list(self._children.values())
        return {tag_of(instance, c.origin, c.incarnation) for c in children}

    def _is_surely_gone(self, origin: str, tag: str) -> bool:
        """The process is; False when told to stop before the cluster could be asked."""

        def unreachable(why: str) -> None:
            self._lines.put(Message("unreachable", {"why": why}, origin))

        return self._cluster is None or confirm_gone(
            self._cluster, tag, unreachable=unreachable, stop=self._stopping
        )

    def _send(self, origin: str, data: Mapping[str, Any]) -> None:
        if child := self._children.get(origin):
            child.send(data)

    def _forget(self, origin: str) -> None:
        if child := self._children.pop(origin, None):
            child.close()
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
