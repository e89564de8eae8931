"""One run: a job, those who act between its statements, and the oracle at its end.

A place is a number: 2k - 1 is before the job's k-th statement, 2k behind it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

from ingest.contract.job import JobReport, JobSpec, SnapshotWork
from ingest.driver.capture import reading as patience
from ingest.driver.run import run_job
from tests.hostile import acts, behaviour, oracle
from tests.hostile.actors import Actor, Wait
from tests.hostile.beginning import Beginnings, Loaded, signs_of
from tests.hostile.follow import Followed, follow, sync_of
from tests.hostile.history import History, lake_state
from tests.hostile.hosts import CLOCKS, MOVED, Host, network_of
from tests.hostile.proxy import Statement, WireProxy, proxy_of
from tests.hostile.shapes import Shape
from tests.hostile.source import SIDES
from tests.spark.lake_bench import LakeBench, assert_done, with_attempt

JOBS = ("snapshot", "sync", "resumed", "resync", "verify")
_WITHOUT_A_LAKE = frozenset({"snapshot", "resumed"})
CHUNK_ROWS = 5
# A job that does not end by itself is a violation; on a machine that is busy with other
# things it may only be slow.
STUCK_SECONDS = 180.0
_ATTEMPTS = 4
# an actor goes on when a job waits, so that no pause has to be long
_PAUSES = (0.1, 0.2, 0.5, 1, 1, 1)


@contextmanager
def short_pauses() -> Iterator[None]:
    with mock.patch.object(patience, "PAUSES", _PAUSES):
        yield


@dataclass(frozen=True, slots=True)
class Plan:
    """What happens, and where. steps: (place, number of the act), in their order."""

    kind: str
    job: str
    acts: tuple[str, ...]
    steps: tuple[tuple[int, int], ...]
    seed: int = 0


@dataclass(slots=True)
class Result:
    """violations: empty is right. outcome: of the job's last attempt. acted: statements
    of others while it ran."""

    plan: Plan
    outcome: str = ""
    code: str = ""
    after: str = ""
    statements: int = 0
    acted: int = 0
    violations: list[str] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def facts(self) -> dict[str, Any]:
        plan = self.plan
        longest = max((w.seconds for w in self.waits), default=0.0)
        return {
            "hostile": f"{plan.kind} {plan.job} {'+'.join(plan.acts) or 'quiet'}",
            "seed": plan.seed,
            "steps": plan.steps,
            "outcome": self.outcome,
            "code": self.code,
            "after": self.after,
            "statements": self.statements,
            "acted": self.acted,
            "alter_waited_seconds": round(longest, 3),
            "refused_acts": self.errors,
        } | ({"error": "; ".join(self.violations)[:2_000]} if self.violations else {})


class Stage:
    """One source behind a proxy and one lake; runs plans one after the other."""

    def __init__(self, bench: LakeBench, host: Host | None = None) -> None:
        """host: of a server that nobody else uses."""
        self.bench, self.host = bench, host
        self.side = SIDES[bench.source.kind]
        self._direct = bench.source
        self.proxy: WireProxy = proxy_of(
            bench.source.kind, bench.source.host, bench.source.port
        )
        bench.source = replace(bench.source, port=self.proxy.port, max_parallel_reads=1)
        self.network = network_of(bench, host, self.proxy)
        self._tables = 0
        self._beginnings = Beginnings(bench)

    def close(self) -> None:
        self.proxy.close()
        self.bench.close()

    def back_up(self) -> None:
        """What `restored` goes back to."""
        assert self.host is not None, "others use this server"
        self.host.back_up()
        self.proxy.follow(self.host.port)

    def _put_right(self, plan: Plan) -> None:
        """The clock, with which the next run would begin."""
        if self.host is not None and CLOCKS & {*plan.acts}:
            self.host.set_clock(0)

    def play(self, plan: Plan) -> Result:
        shape = next(
            (acts.ACTS[a].shape for a in plan.acts if acts.ACTS[a].shape != "plain"),
            "plain",
        )
        self.proxy.count_anew()
        begun = self._begun(shape, is_loaded=plan.job not in _WITHOUT_A_LAKE)
        with ExitStack() as stack:
            history = History(self.bench, begun.table)
            stack.callback(history.close)
            stack.callback(self._put_right, plan)
            return _Run(self, plan, begun, history).result()

    def follow_shape(self, shape: Shape) -> Followed:
        """The syncs behind the changes of a table of that shape."""
        self._tables += 1
        name = f"o{self._tables}"
        for statement in shape.statements(shape.create, name):
            self.bench.sql(statement)
        table = self.bench.table(name, shape.key, cursor="at")
        history = History(self.bench, table)
        try:
            history.look()
            loaded = assert_done(self.bench.load(table))
            for statement in shape.statements(shape.changes, name):
                self.bench.sql(statement)
            history.look()
            return follow(self.bench, table, loaded, history, lacks=shape.lacks)
        finally:
            history.close()

    def nothing_of(self, plan: Plan) -> dict[str, Any]:
        """The facts of a plan whose run told nothing."""
        return Result(plan).facts

    def create(self, name: str, shape: str) -> None:
        self._beginnings.create(name, shape)

    def _begun(self, shape: str, *, is_loaded: bool) -> Loaded:
        self._tables += 1
        name = f"o{self._tables}"
        if is_loaded:
            return self._beginnings.loaded(name, shape)
        self.create(name, shape)
        return Loaded(self.bench.table(name, cursor="at"), "")


class _Run:
    def __init__(
        self, stage: Stage, plan: Plan, begun: Loaded, history: History
    ) -> None:
        self.stage, self.plan, self.history = stage, plan, history
        self.table, self._low = begun.table, begun.low
        self.bench, self.proxy = stage.bench, stage.proxy
        self.made = Result(plan)
        self._due = sorted(plan.steps)
        self._lock = threading.RLock()
        self._failures: list[str] = []
        self._signs: dict[str, Any] = {}
        self._has_lake = plan.job not in _WITHOUT_A_LAKE

    def result(self) -> Result:
        plan, made = self.plan, self.made
        self._prepare()
        if "restored" in plan.acts:
            self.stage.back_up()
        self.history.look()
        kind, name = self.stage.side.kind, self.table.source_table
        self._actors = [
            Actor(
                self.bench,
                self.stage.side,
                acts.ACTS[act].script(kind, name),
                committed=self.history.look,
                network=self.stage.network,
            )
            for act in plan.acts
        ]
        try:
            report = self._job()
            self._finish_actors()
        finally:
            for actor in self._actors:
                actor.end()
                made.waits += actor.waits
                made.errors += actor.errors
        self.history.look()
        made.violations += self._failures
        if report is not None:
            self._judge(report)
        return made

    # ----------------------------------------------------------------- the job

    def _prepare(self) -> None:
        job, bench, table = self.plan.job, self.bench, self.table
        if not self._has_lake:
            return
        self._signs = signs_of(bench, table)
        self.history.look()
        # due for a while, so that no lag leaves them to the next sync
        name, stamp = table.source_table, self.stage.side.earlier
        if job == "resync":
            # changes that no capture saw
            bench.sql(f"UPDATE {name} SET v = 'unseen' WHERE id IN (1, 7)")
            bench.sql(f"DELETE FROM {name} WHERE id = 12")
        if job == "sync":
            bench.sql(f"UPDATE {name} SET v = 'due', at = {stamp} WHERE id IN (1, 7)")
            bench.sql(f"INSERT INTO {name} (id, v, at) VALUES (13, 'due', {stamp})")

    def _spec(self) -> JobSpec:
        job, bench, table = self.plan.job, self.bench, self.table
        if job == "sync":
            return sync_of(bench, table, self._low, self._signs)
        if job == "verify":
            return bench.verify_spec(table, chunk_rows=CHUNK_ROWS)
        kind: Any = "resync" if job == "resync" else "snapshot"
        work = SnapshotWork(chunk_rows=CHUNK_ROWS)
        return bench.spec(kind, table, snapshot=work)

    def _job(self) -> JobReport | None:
        spec = self._spec()
        if self.plan.job == "resumed":
            spec = self._interrupted(spec)
        report: JobReport | None = None
        self.proxy.count_anew(
            lambda s: self._reach(2 * s.number - 1), lambda s: self._reach(2 * s.number)
        )
        for attempt in range(spec.attempt, spec.attempt + _ATTEMPTS):
            for actor in self._actors:  # the product pauses before it tries again
                actor.wait_moved()
            report = self._attempt(with_attempt(spec, attempt))
            if report is None or report.outcome != "transient":
                break
        self.made.statements = len(self.proxy.sent)
        self.proxy.calm()
        if report is not None:
            self.made.outcome = report.outcome
            self.made.code = report.error.code if report.error else ""
            if report.outcome != "succeeded":
                self.made.violations += oracle.unnamed_failure(report)
            end = self.made.code or self.made.outcome
            plan = self.plan
            self.made.violations += behaviour.unexpected(plan.job, plan.acts, end)
        return report

    def _interrupted(self, spec: JobSpec) -> JobSpec:
        """The first attempt loses its connections while it reads its second chunk."""
        seen: list[str] = []

        def cut(statement: Statement) -> None:
            if "source_rows" in statement.text and "WHERE 1=0" not in statement.text:
                seen.append(statement.text)
                if len(seen) == 2:
                    self.proxy.cut()

        self.proxy.count_anew(cut)
        report = self.bench.run(spec)
        assert report.outcome == "transient", report
        return with_attempt(spec, 2)

    def _attempt(self, spec: JobSpec) -> JobReport | None:
        """The report, or None when the job had to be freed by force."""
        reports: list[JobReport] = []
        run = self.bench.start(spec)

        def work() -> None:
            from ingest.driver.capture.parallel import enter_lane

            enter_lane(run)
            reports.append(run_job(run, self.bench.spark, self.bench.gates))

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        end, moved, sent = time.monotonic() + STUCK_SECONDS, 0, -1
        side = self.stage.side
        monitor = side.connect(self.bench)
        try:
            while thread.is_alive() and time.monotonic() < end:
                thread.join(0.1)
                if self.proxy.is_silent or side.asks(monitor, side.jobs_wait):
                    moved += 1
                    if moved >= 3 and self._push():
                        moved = 0
                if len(self.proxy.sent) != sent:
                    sent, end = len(self.proxy.sent), time.monotonic() + STUCK_SECONDS
        finally:
            monitor.close()
        if thread.is_alive():
            self._failures.append(
                f"the job was stuck behind {self.proxy.sent[-1].text[:200]}"
            )
            self.proxy.thaw()
            for actor in self._actors:
                actor.end()
            run.request_stop("cancel")
            thread.join(STUCK_SECONDS)
            assert not thread.is_alive(), "the job does not end"
            return None
        return reports[0]

    # -------------------------------------------------------------- the others

    def _reach(self, place: int) -> None:
        try:
            with self._lock:
                while self._due and self._due[0][0] <= place:
                    if not self._step():
                        return
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            self._failures.append(f"an actor failed: {error!r}")

    def _push(self) -> bool:
        """The job waits for a lock of theirs: the next of them goes on."""
        with self._lock:
            return bool(self._due) and self._step()

    def _step(self) -> bool:
        """The first one due whose actor is free."""
        for number, (_, which) in enumerate(self._due):
            actor = self._actors[which]
            if actor.is_busy:
                continue
            del self._due[number]
            self.made.acted += 1
            actor.advance()
            return True
        return False

    def _finish_actors(self) -> None:
        end = time.monotonic() + STUCK_SECONDS
        while not all(actor.is_done for actor in self._actors):
            moved = [actor.advance() for actor in self._actors]
            if not any(moved):
                for actor in self._actors:
                    actor.settle(0.1)
            assert time.monotonic() < end, "the actors wait for each other"

    # --------------------------------------------------------------- the oracle

    def _judge(self, report: JobReport) -> None:
        made, table, states = self.made, self.table, self.history.states
        has_lake = (Path(table.path) / ".hoodie").exists()
        is_done = report.outcome == "succeeded"
        if not is_done and not self._has_lake:
            return
        if not has_lake:
            made.violations.append("it succeeded, and there is no lake table")
            return
        lake = lake_state(table)
        made.violations += oracle.damage(lake, states)
        if self.plan.job == "verify":
            if is_done:
                made.violations += oracle.false_verdict(report, table, lake, states)
            return
        if is_done:
            is_moved = bool(MOVED & {*self.plan.acts})
            followed = follow(
                self.bench, table, report, self.history, is_moved=is_moved
            )
            made.after = followed.end
            made.violations += followed.violations
