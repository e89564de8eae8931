"""A launcher without Spark, for tests: the same messages, the same fences, commits
that the timeline reader understands, and knobs for everything that can go wrong.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import fastavro

from core.errors import StaleState
from core.json_values import iso
from ingest.contract.applying import (
    Applied,
    ApplyProblem,
    ApplyReport,
    ApplyTable,
    ApplyWork,
)
from ingest.contract.job import (
    OUT_OF_MEMORY,
    ErrorFact,
    JobReport,
    JobSpec,
    Outcome,
    Progress,
    SecretAnswer,
)
from ingest.contract.members import as_data
from ingest.contract.table import TableSpec
from ingest.driver_host.cluster import App, MasterAway
from ingest.driver_host.launcher import CancelMode, Message
from ingest.lake.commits import read_lake_table
from ingest.lake.fence import require_fence
from ingest.lake.hudi.identity import identity_for, properties_of
from ingest.lake.hudi.options import (
    EXTRA_KEY,
    CommitPosition,
    decode_position,
    encode_position,
)


class Fault(StrEnum):
    NONE = "none"
    TRANSIENT = "transient"
    TERMINAL = "terminal"
    INVALID_REQUEST = "invalid_request"
    DIE_UNACCEPTED = "die_unaccepted"
    DIE_RUNNING = "die_running"
    DIE_COMMITTED = "die_committed"
    OUT_OF_MEMORY = "out_of_memory"
    FORGET = "forget"
    HANG = "hang"
    DEAF = "deaf"
    REPORT_TWICE = "report_twice"


@dataclass(slots=True)
class _Work:
    spec: JobSpec
    fault: Fault
    origin: str
    is_accepted: bool = False
    is_waiting: bool = False
    cancel: CancelMode | None = None


@dataclass(slots=True)
class FakeSession:
    """Applies nothing: it goes by the newest work and reports what the test says.

    works: all that it got. busy: tables that it cannot give up yet. told: what it
    reports of a table once, problems: the same
    """

    works: list[ApplyWork] = field(default_factory=list)
    busy: set[int] = field(default_factory=set)
    told: list[Applied] = field(default_factory=list)
    problems: list[ApplyProblem] = field(default_factory=list)
    is_silent: bool = False
    _held: set[int] = field(default_factory=set)

    @property
    def tables(self) -> dict[int, ApplyTable]:
        return {each.table.table_id: each for each in self.works[-1].tables}

    def beat(self) -> ApplyReport | None:
        if self.is_silent:
            return None
        work = self.works[-1]
        taken = self.tables.keys() - self._held
        self._held = self.tables.keys() | (self._held & self.busy)
        applied = [_taken(self.tables[pk]) for pk in sorted(taken)]
        report = ApplyReport(
            run=work.run,
            stream=work.stream,
            number=work.number,
            held=tuple(sorted(self._held)),
            applied=(*applied, *self.told),
            problems=tuple(self.problems),
        )
        self.told, self.problems = [], []
        return report


def _taken(given: ApplyTable) -> Applied:
    require_fence(given.fence)
    at = read_lake_table(given.table.path).position
    end, epoch = (at.end, at.epoch_to) if at else ("", 0)
    return Applied(given.table.table_id, epoch=epoch, position=end, is_live=False)


@dataclass(slots=True)
class FakeLauncher:
    """faults[kind]: taken one by one, for each spec of that kind in turn.
    errors[kind]: "code" or "code outcome", in the same way

    starts, submitted, secrets, answers: what was asked of it, for tests to look at
    abandoned: jobs whose threads answer nothing and live on until their driver ends
    sessions: by stream, what it shall apply, and how the double plays it
    """

    faults: dict[str, deque[Fault]] = field(default_factory=lambda: defaultdict(deque))
    facts: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    errors: dict[str, list[str]] = field(default_factory=dict)
    starts: list[str] = field(default_factory=list)
    submitted: list[JobSpec] = field(default_factory=list)
    isolated: list[str] = field(default_factory=list)
    secrets: list[tuple[str, str]] = field(default_factory=list)
    answers: list[SecretAnswer] = field(default_factory=list)
    pings: int = 0
    is_silent: bool = False
    abandoned: list[str] = field(default_factory=list)
    sessions: dict[str, FakeSession] = field(default_factory=dict)
    _is_running: bool = False
    _work: dict[str, _Work] = field(default_factory=dict)
    _said: list[Message] = field(default_factory=list)

    @property
    def is_running(self) -> bool:
        return self._is_running

    @property
    def pid(self) -> int | None:
        return 4242 if self._is_running else None

    def start(self, incarnation: str) -> None:
        self.starts.append(incarnation)
        self._is_running = True
        self.is_silent = False
        self._say("ready", pid=4242, versions={"spark": "fake"})

    def submit(self, spec: JobSpec, *, isolated: bool) -> None:
        waiting = self.faults[spec.kind]
        fault = waiting.popleft() if waiting else Fault.NONE
        origin = spec.job_id if isolated else ""
        self.submitted.append(spec)
        if isolated:
            self.isolated.append(spec.job_id)
        self._work[spec.job_id] = _Work(spec, fault, origin)

    def cancel(self, job_id: str, mode: CancelMode) -> None:
        work = self._work.get(job_id)
        if work is None:
            return
        work.cancel = mode
        if mode == "abandon":
            del self._work[job_id]
            if work.fault is Fault.DEAF:
                self.abandoned.append(job_id)

    def apply(self, work: ApplyWork) -> None:
        if self._is_running:
            self.sessions.setdefault(work.stream, FakeSession()).works.append(work)

    def give_secret(self, answer: SecretAnswer, *, origin: str) -> None:
        self.answers.append(answer)
        if answer.error is None:
            self.secrets.append((answer.ref, answer.value))
        for work in list(self._work.values()):
            source = work.spec.source
            if source is None or source.secret_ref != answer.ref:
                continue
            work.is_waiting = False
            if answer.error is not None and work.origin == origin:
                self._report(work, answer.outcome, error=answer.error)

    def ping(self) -> None:
        self.pings += 1

    def poll(self, seconds: float) -> list[Message]:
        """Each call is one beat of the driver's life."""
        if self._is_running and not self.is_silent:
            for work in list(self._work.values()):
                if self.is_running or work.origin:
                    self._beat(work)
            if self._is_running:
                jobs = [
                    dataclasses.asdict(Progress(w.spec.job_id, w.spec.attempt, "work"))
                    for w in self._work.values()
                    if w.is_accepted and w.fault is not Fault.FORGET
                ]
                gone = list(self.abandoned)
                self._say("heartbeat", at=0.0, jobs=jobs, jobs_abandoned=gone)
                for session in self.sessions.values():
                    if report := session.beat():
                        self._say("applied", report=as_data(report))
        said, self._said = self._said, []
        return said

    def wake(self) -> None:
        """Its polls do not wait."""

    def kill(self, origin: str = "") -> None:
        self._die(origin)

    def stop(self) -> None:
        self._work.clear()
        self._is_running = False

    # -------------------------------------------------------------------- inside

    def _beat(self, work: _Work) -> None:
        spec = work.spec
        if not work.is_accepted:
            if work.fault is Fault.DIE_UNACCEPTED:
                self._die(work.origin)
                return
            work.is_accepted = True
            self._say("accepted", job_id=spec.job_id, attempt=spec.attempt)
            if spec.source is not None:
                work.is_waiting = True
                self._say("secret_request", ref=spec.source.secret_ref)
            self._say("log", job_id=spec.job_id, level="info", message="begun")
        elif work.cancel is not None and work.fault is not Fault.DEAF:
            outcome: Outcome = "paused" if work.cancel == "pause" else "cancelled"
            self._report(work, outcome)
        elif not work.is_waiting:
            self._carry_on(work)

    def _carry_on(self, work: _Work) -> None:
        match work.fault:
            case Fault.HANG | Fault.FORGET | Fault.DEAF:
                return
            case Fault.DIE_RUNNING:
                self._die(work.origin)
            case Fault.OUT_OF_MEMORY:
                words = "out of memory while reading wide rows"
                self._report(work, "transient", error=ErrorFact(OUT_OF_MEMORY, words))
                self._die(work.origin)
            case Fault.DIE_COMMITTED:
                self._succeed(work.spec)
                self._die(work.origin)
            case Fault.TRANSIENT | Fault.TERMINAL | Fault.INVALID_REQUEST:
                error = ErrorFact(f"fake_{work.fault}", "as configured", "look here")
                self._report(work, work.fault.value, error=error)
            case _ if planned := self.errors.get(work.spec.kind, []):
                code, _, outcome = planned.pop(0).partition(" ")
                error = ErrorFact(code, "as configured", "look here")
                self._report(work, outcome or "terminal", error=error)
            case _:
                self._finish(work)

    def _finish(self, work: _Work) -> None:
        try:
            facts = self._succeed(work.spec)
        except StaleState as error:
            fact = ErrorFact(error.code, error.message)
            self._report(work, "transient", error=fact)
            return
        self._report(work, "succeeded", facts=facts)
        if work.fault is Fault.REPORT_TWICE:
            self._report(work, "succeeded", facts=facts)

    def _succeed(self, spec: JobSpec) -> dict[str, Any]:
        require_fence(spec.fence)
        facts: dict[str, Any]
        if spec.compact is not None:
            facts = {"instants": list(spec.compact.instants), "seconds": 0.1}
            for instant in spec.compact.instants:
                write_instant(Path(spec.table.path), instant, "commit", {})
        elif spec.repair is not None:
            facts = {"action": spec.repair.action}
        elif spec.verify is not None:
            facts = {"verdict": "equal", "position": spec.verify.position}
        else:
            end = iso(datetime.now(UTC))
            low = spec.sync.low if spec.sync else None
            at = read_lake_table(spec.table.path).position
            epoch = at.epoch_to + 1 if at else 1
            instant = write_commit(spec, start=low or "", end=end, epoch=epoch)
            facts = {"instant": instant, "rows": 1, "epoch": epoch, "bytes": 1}
            if spec.sync is None:
                facts |= {"bound": end, "consistency": "snapshot", "chunks": 1}
            else:
                facts |= {"position": {"from": low, "to": end}, "more": False}
        return facts | dict(self.facts.get(spec.kind, {}))

    def _report(
        self,
        work: _Work,
        outcome: str,
        *,
        facts: Mapping[str, Any] | None = None,
        error: ErrorFact | None = None,
    ) -> None:
        spec = work.spec
        report = JobReport(
            spec.job_id,
            spec.attempt,
            outcome,  # type: ignore[arg-type]
            facts=dict(facts or {}),
            error=error,
        )
        self._say("report", report=json.loads(json.dumps(dataclasses.asdict(report))))
        self._work.pop(spec.job_id, None)

    def _die(self, origin: str) -> None:
        if origin:
            self._work.pop(origin, None)
        else:
            self._is_running = False
            self.abandoned.clear()
            self.sessions.clear()
            self._work = {k: w for k, w in self._work.items() if w.origin}
        self._said.append(Message("died", {"code": -9}, origin))

    def _say(self, kind: Any, **data: Any) -> None:
        self._said.append(Message(kind, data))


# ------------------------------------------------------------- a lake of one file

_SCHEMA = {
    "type": "record",
    "name": "HoodieCommitMetadata",
    "fields": [
        {"name": "operationType", "type": ["null", "string"]},
        {"name": "extraMetadata", "type": {"type": "map", "values": "string"}},
    ],
}
_numbers = itertools.count(1)


def write_commit(spec: JobSpec, *, start: str, end: str, epoch: int) -> str:
    """A completed delta commit with its `_sluice` key; its instant."""
    position = CommitPosition(
        source=spec.source.datasource_id if spec.source else 0,
        start=start,
        end=end,
        epoch_from=epoch,
        epoch_to=epoch,
        run=spec.job_id,
        fence=spec.fence.token,
        identity=identity_for(spec.table),
    )
    instant = f"{datetime.now(UTC):%Y%m%d%H%M%S}{next(_numbers) % 1000:03d}"
    extra = {EXTRA_KEY: encode_position(position)}
    write_instant(Path(spec.table.path), instant, "deltacommit", extra)
    return instant


def write_instant(base: Path, instant: str, action: str, extra: dict[str, str]) -> None:
    timeline = base / ".hoodie" / "timeline"
    timeline.mkdir(parents=True, exist_ok=True)
    properties = base / ".hoodie" / "hoodie.properties"
    if EXTRA_KEY in extra:
        said = properties_of(decode_position(extra[EXTRA_KEY]).identity)
        properties.write_text("".join(f"{k}={v}\n" for k, v in said.items()))
    record = {"operationType": "UPSERT", "extraMetadata": extra}
    with (timeline / f"{instant}_{int(instant) + 1:017d}.{action}").open("wb") as out:
        fastavro.writer(out, _SCHEMA, [record])


def write_applied(table: TableSpec, epoch: int) -> str:
    """A commit of the lake table that reached it; its instant."""
    position = CommitPosition(1, "", "", epoch, epoch, "run", 1, identity_for(table))
    instant = f"2026010100{epoch:07d}"
    extra = {EXTRA_KEY: encode_position(position)}
    write_instant(Path(table.path), instant, "deltacommit", extra)
    return instant


@dataclass(slots=True)
class FakeCluster:
    """A cluster without Spark. is_away: the master does not answer."""

    running: list[App] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)
    is_away: bool = False

    def apps(self) -> list[App]:
        if self.is_away:
            raise MasterAway("the master does not answer", code="master_away")
        return list(self.running)

    def kill(self, app: App) -> None:
        self.apps()
        self.killed.append(app.tag)
        self.running.remove(app)
