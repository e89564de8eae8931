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

from core.states import Transitions, fan
from gateway.engines.port import (
    EngineColumn,
    EngineOperation,
    EnginePolicy,
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

OPERATION = Transitions(
    name="Operation",
    initial=S.INITIALIZED,
    arrows={
        (S.INITIALIZED, "queue"): S.PENDING,
        **fan((S.INITIALIZED, S.PENDING), "run", S.RUNNING),
        **fan(ALIVE, "finish", S.FINISHED),
        **fan(ALIVE, "fail", S.ERROR),
        **fan(ALIVE, "cancel", S.CANCELED),
        **fan(ALIVE, "time_out", S.TIMEDOUT),
        **fan((*ALIVE, *ENDED), "close", S.CLOSED),
    },
    terminal=frozenset({S.CLOSED}),
    why={
        "queue": "it waits for a slot, an engine or its policy",
        "run": "the engine took the statement",
        "finish": "its result can be fetched",
        "fail": "the engine or a check refused it",
        "cancel": "the client asked; the Spark job is stopped",
        "time_out": "its time limit passed: the client's own or the gateway's",
        "close": "the client or the end of its session freed it",
    },
)


def new_handle() -> Handle:
    """Return an unguessable handle."""
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


@dataclass(slots=True, eq=False)
class Operation:
    """One statement or metadata call. `rows` counts what was handed out, `policy` is
    what the user might when it began."""

    kind: OperationType
    statement: str = ""
    has_result_set: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)  # its own, by key
    handle: Handle = field(default_factory=new_handle)
    state: OperationState = S.INITIALIZED
    columns: tuple[EngineColumn, ...] = ()
    local: LocalRows | None = None
    engine: EngineOperation | None = None
    schema: asyncio.Future[tuple[EngineColumn, ...]] | None = None
    reader: ResultReader | None = None
    policy: EnginePolicy | None = None
    fault: Fault | None = None
    rows: int = 0
    started: float = field(default_factory=time.time)
    completed: float | None = None
    reached_engine: float | None = None
    touched: float = field(default_factory=time.monotonic)
    runner: asyncio.Task[None] | None = None
    log: list[str] = field(default_factory=list)
    log_position: int = 0
    is_cancellable_task: bool = False
    is_second_run: bool = False
    is_lost: bool = False  # the result that it finished with
    engine_start: int = 0  # which of the engine's starts has it
    ended_starts: set[int] = field(default_factory=set)  # those that ended under it
    _ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def id(self) -> str:
        """The public name in logs and audit; not enough to act on the operation."""
        return self.handle.guid.hex()

    @property
    def is_alive(self) -> bool:
        """True until it finished, failed, was cancelled or closed."""
        return self.state in ALIVE

    @property
    def is_left(self) -> bool:
        """True when its user cancelled or closed it, or its time limit passed."""
        return self.state in LEFT

    def advance(self, event: str) -> None:
        """Take one arrow of OPERATION; IllegalTransition when there is none."""
        self.state = OperationState(OPERATION.after(self.state, event))
        if not self.is_alive:
            self.completed = self.completed or time.time()
            self._ended.set()

    def finish(self) -> None:
        """Make the result fetchable, unless the operation ended before."""
        if self.is_alive:
            self.advance("finish")

    def fail(self, fault: Fault) -> None:
        """End with an error, unless the operation ended before."""
        if self.is_alive:
            self.fault = fault
            self.advance("fail")

    def stop(self, event: str) -> bool:
        """End by `cancel` or `time_out`; False when it had ended before."""
        if not self.is_alive:
            return False
        self.fault = (
            Fault("the statement ran longer than its time limit", TIMED_OUT)
            if event == "time_out"
            else Fault("the statement was cancelled", CANCELLED)
        )
        self.advance(event)
        return True

    def seconds_wasted(self) -> float:
        """Return how long the engine had it for nothing; 0 when it has a result."""
        has_result = self.state is S.FINISHED and not self.is_lost
        if has_result or self.reached_engine is None:
            return 0.0
        return time.monotonic() - self.reached_engine

    def log_line(self, line: str) -> None:
        """Append a line to the operation's log, unless the last one is the same."""
        if len(self.log) < LOG_LINES and line not in self.log[-1:]:
            self.log.append(line)

    def new_log_lines(self) -> list[str]:
        """Return log lines not read before."""
        lines = self.log[self.log_position :]
        self.log_position = len(self.log)
        return lines

    async def shape(self) -> tuple[EngineColumn, ...]:
        """Return the result's columns, which an engine tells after the end."""
        if self.schema:
            self.columns = await asyncio.shield(self.schema)
            self.schema = None
        return self.columns

    async def wait(self, seconds: float | None = None) -> None:
        """Return when it ended, or after `seconds`."""
        if not self.is_alive:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        except TimeoutError:
            return
