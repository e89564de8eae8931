"""One operation of a session: its state, its result's shape, its outcome.

The state machine is the gateway's own; the engine's state only drives it. Must not
know sockets or which engine runs the statement.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from catalog.access.principal_policy import PrincipalPolicy, ReadTables
from core.sentences import Sentence
from core.states import Transitions, fan
from gateway.engines.port import (
    EngineColumn,
    EngineOperation,
    EngineSession,
    OperationState,
)
from gateway.faults import CANCELLED, TIMED_OUT, Fault
from gateway.hs2.values import Handle, OperationType
from gateway.result_reader import ResultReader

S = OperationState
ALIVE = (S.INITIALIZED, S.PENDING, S.RUNNING)
ENDED = (S.FINISHED, S.CANCELED, S.ERROR, S.TIMEDOUT)
LEFT = (S.CANCELED, S.TIMEDOUT, S.CLOSED)
LOG_LINES = 1000
_STOPPED = {
    "cancel": Fault(Sentence("the statement was cancelled"), CANCELLED),
    "time_out": Fault(
        Sentence("the statement ran longer than its time limit"), TIMED_OUT
    ),
}

OPERATION = Transitions(
    name="Operation",
    initial=S.INITIALIZED,
    arrows={
        (S.INITIALIZED, "queue"): S.PENDING,
        **fan((S.INITIALIZED, S.PENDING), "run", S.RUNNING),
        **fan(ALIVE, "finish", S.FINISHED),
        **fan(ALIVE, "fail", S.ERROR),
        **fan((*ALIVE, S.FINISHED), "cancel", S.CANCELED),
        **fan((*ALIVE, S.FINISHED), "time_out", S.TIMEDOUT),
        **fan((*ALIVE, *ENDED), "close", S.CLOSED),
    },
    terminal=frozenset({S.CLOSED}),
    why={
        "queue": "it waits for a slot, an engine or its policy",
        "run": "the engine took the statement",
        "finish": "its first rows are there, or that there are none",
        "fail": "the engine or a check refused it",
        "cancel": "the client asked; what makes its rows is stopped, too",
        "time_out": "its time limit passed: the client's own or the gateway's",
        "close": "the client or the end of its session freed it",
    },
)


def new_handle() -> Handle:
    return Handle(guid=secrets.token_bytes(16), secret=secrets.token_bytes(16))


Page = Sequence[Sequence[object]]


@dataclass(slots=True)
class LocalRows:
    """A result the gateway made itself, with a reading position.

    more  reads the page after the last; an empty one is the end. None = all is there
    """

    type_ids: tuple[int, ...]
    rows: list[Sequence[object]]
    more: Callable[[], Awaitable[Page]] | None = None
    position: int = 0

    async def take(self, count: int) -> Page:
        """Return the next rows, reading further pages as far as they are wanted."""
        while self.more and len(self.rows) < self.position + count:
            page = await self.more()
            self.rows.extend(page)
            if not page:
                self.more = None
        taken = self.rows[self.position : self.position + count]
        self.position += len(taken)
        return taken


@dataclass(frozen=True, slots=True)
class Context:
    """What is current in a session: its database, and the SET or RESET of each key that
    was changed, in the order they came."""

    database: str = "default"
    changes: Mapping[str, str] = field(default_factory=dict)


class RunEnd(StrEnum):
    """Why a run came to nothing, whatever its statement."""

    ENGINE = "the engine ended"
    MEMORY = "the engine's memory ended"
    RIGHTS = "it ran with rights that were no longer those of its user"


# For people, by how the run before ended.
_AGAIN = {
    RunEnd.ENGINE: Sentence(
        "the query engine ended; another one starts, and the statement runs again on it"
    ),
    RunEnd.MEMORY: Sentence(
        "the query engine was short of memory; the statement runs again"
    ),
    RunEnd.RIGHTS: Sentence("your privileges changed; the statement runs again"),
}


@dataclass(slots=True, eq=False)
class Run:
    """One attempt at a statement in an engine.

    policy        the rights that the engine's Guard had for it
    engine_start  which of the engine's starts has it
    is_apart      the engine session is this run's alone, and ends with it
    reads         what it reads, for a query that is analysed; None: not known
    is_over       the engine plans and computes it no more, but for what is fetched
    is_whole      the engine has all of its rows, and reads nothing for it any more
    """

    engine: EngineSession
    policy: PrincipalPolicy
    engine_start: int
    is_apart: bool = False
    began: float = field(default_factory=time.monotonic)
    handle: EngineOperation | None = None
    columns: tuple[EngineColumn, ...] = ()
    reads: ReadTables | None = None
    reader: ResultReader | None = None
    is_over: bool = False
    is_whole: bool = False
    is_dropped: bool = False
    end: RunEnd | None = None

    @property
    def left_nothing(self) -> bool:
        """True when the engine called it a query, which changes nothing of its session,
        and all of its rows were read."""
        is_read = self.reader is not None and self.reader.is_at_end
        return self.reads is not None and is_read


@dataclass(slots=True, eq=False)
class Operation:
    """One statement or metadata call. `rows` counts what was handed out, `context` is
    what was current when it was sent, `limit` its client's, in seconds; 0 for none."""

    kind: OperationType
    statement: str = ""
    has_result_set: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)  # its own, by key
    context: Context = field(default_factory=Context)
    limit: float = 0.0
    handle: Handle = field(default_factory=new_handle)
    state: OperationState = S.INITIALIZED
    columns: tuple[EngineColumn, ...] = ()
    local: LocalRows | None = None
    runs: list[Run] = field(default_factory=list)
    fault: Fault | None = None
    rows: int = 0
    started: float = field(default_factory=time.time)
    completed: float | None = None
    touched: float = field(default_factory=time.monotonic)
    runner: asyncio.Task[None] | None = None
    log: list[str] = field(default_factory=list)
    log_position: int = 0
    _ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def id(self) -> str:
        """The public name in logs and audit; not enough to act on the operation."""
        return self.handle.guid.hex()

    @property
    def is_alive(self) -> bool:
        return self.state in ALIVE

    @property
    def is_left(self) -> bool:
        """True when its user cancelled or closed it, or its time limit passed."""
        return self.state in LEFT

    @property
    def run(self) -> Run | None:
        return self.runs[-1] if self.runs else None

    @property
    def reader(self) -> ResultReader | None:
        """Reads the result, once there is one."""
        return self.run.reader if self.run else None

    @property
    def waits(self) -> bool:
        """True while no engine has it: before its first run, or between two."""
        return self.run is None or self.run.end is not None

    @property
    def may_run_again(self) -> bool:
        """False once an engine ended under it, or was short of memory."""
        return all(run.end in {None, RunEnd.RIGHTS} for run in self.runs)

    @property
    def ended_starts(self) -> set[int]:
        return {run.engine_start for run in self.runs if run.end is RunEnd.ENGINE}

    def advance(self, event: str) -> None:
        """Take one arrow of OPERATION; IllegalTransition when there is none."""
        self.state = OperationState(OPERATION.after(self.state, event))
        if not self.is_alive:
            self.completed = self.completed or time.time()
            self._ended.set()

    def finish(self) -> None:
        """Make the result fetchable, unless the operation ended before."""
        if self.is_alive:
            self.columns = self.run.columns if self.run else self.columns
            self.advance("finish")

    def fail(self, fault: Fault) -> None:
        """End with an error, unless the operation ended before."""
        if self.is_alive:
            self.fault = fault
            self.advance("fail")

    def stop(self, event: str) -> bool:
        """End by `cancel` or `time_out`, also while rows are to come from the engine;
        False when it had ended before."""
        is_read = self.reader is None or self.reader.is_at_end
        if not self.is_alive and (self.state is not S.FINISHED or is_read):
            return False
        self.fault = _STOPPED[event]
        self.advance(event)
        return True

    @property
    def seconds(self) -> float:
        """Since it began, until its end."""
        return (self.completed or time.time()) - self.started

    def seconds_wasted(self) -> float:
        """Return how long the engine had it for nothing; 0 when it has a result."""
        run = self.run
        has_result = self.state is S.FINISHED and (
            self.reader is not None or not self.has_result_set
        )
        if run is None or run.end is not None or has_result:
            return 0.0
        return time.monotonic() - run.began

    def log_line(self, line: str) -> None:
        """Append a line to the operation's log, unless the last one is the same."""
        if len(self.log) < LOG_LINES and line not in self.log[-1:]:
            self.log.append(line)

    def log_another_run(self) -> None:
        """Tell in its log why the newest run is not the last one."""
        if self.run and self.run.end:
            self.log_line(_AGAIN[self.run.end])

    def new_log_lines(self) -> list[str]:
        lines = self.log[self.log_position :]
        self.log_position = len(self.log)
        return lines

    async def wait(self, seconds: float | None = None) -> None:
        if not self.is_alive:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        except TimeoutError:
            return
