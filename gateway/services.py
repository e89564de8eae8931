"""What all sessions of a gateway process share."""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Protocol
from weakref import WeakSet

from core.counts import discount
from core.errors import InvalidRequest
from gateway.abuse_throttle import MOST_COUNTED_SECONDS, Waste
from gateway.engines.port import EnginePolicy, EngineRefused, EngineUnavailable
from gateway.engines.supervisor import EngineSupervisor
from gateway.fair import Caller, FairPlaces
from gateway.faults import DISK_FULL, TOO_LARGE
from gateway.idle_sessions import IdleSessions
from gateway.limits import GatewayLimits
from gateway.operation import Operation
from gateway.result_reader import ReadAheadRoom
from gateway.session_registry import SessionRegistry
from gateway.store import Store

WARM_SECONDS = 1.0
# of a statement that took what all others waited for
_STOPPED_ALL = frozenset({TOO_LARGE, DISK_FULL})


class Owner(Protocol):
    """The session that a result belongs to."""

    async def free(self, operation: Operation) -> None: ...


class MetadataResults:
    """At most `most_each` rows of one user, in all their sessions, and `most` of all
    users. The oldest results go, of the user who keeps most; the one that is being made
    never."""

    def __init__(self, *, most: int, most_each: int) -> None:
        self.rows: Counter[str] = Counter()
        self._most = most
        self._most_each = most_each
        self._kept: dict[str, OrderedDict[Operation, tuple[Owner, int]]] = {}

    async def keep(self, user: str, owner: Owner, operation: Operation) -> None:
        """Count a result's rows as they are now, and make room for them."""
        size = len(operation.local.rows) if operation.local else 0
        kept = self._kept.setdefault(user, OrderedDict())
        self.rows[user] += size - kept.get(operation, (owner, 0))[1]
        kept[operation] = (owner, size)  # one that has grown keeps its age
        while self.rows[user] > self._most_each:
            if not await self._free_oldest(user, spared=operation):
                break
        while self.rows.total() > self._most:
            for name, _ in self.rows.most_common():
                if await self._free_oldest(name, spared=operation):
                    break
            else:
                return

    async def _free_oldest(self, user: str, *, spared: Operation) -> bool:
        """Free a user's oldest result; False when there is none but `spared`."""
        kept = self._kept.get(user, OrderedDict())
        oldest = next((one for one in kept if one is not spared), None)
        if oldest is None:
            return False
        owner = kept[oldest][0]
        self.forget(user, oldest)
        await owner.free(oldest)
        return True

    def forget(self, user: str, operation: Operation) -> None:
        """Count a result no more. Idempotent."""
        kept = self._kept.get(user, OrderedDict())
        if operation not in kept:
            return
        self.rows[user] -= kept.pop(operation)[1]
        if not kept:
            del self._kept[user], self.rows[user]


class HasEngine(Protocol):
    """A session's half inside the engine, or on its way there."""

    @property
    def is_held(self) -> bool: ...


@dataclass(slots=True)
class Services:
    """What sessions share: one each per gateway process. `policies` holds what was
    last pushed of each user."""

    store: Store
    supervisor: EngineSupervisor
    limits: GatewayLimits
    lake_root: str = ""
    sessions: SessionRegistry = field(init=False)
    slots: FairPlaces = field(init=False)
    room: ReadAheadRoom = field(init=False)
    metadata_results: MetadataResults = field(init=False)
    idle: IdleSessions = field(init=False)
    texts: Counter[str] = field(default_factory=Counter)
    reads: Counter[str] = field(default_factory=Counter)
    statements: Counter[str] = field(default_factory=Counter)
    policies: dict[str, EnginePolicy] = field(default_factory=dict)
    in_engine: dict[str, WeakSet[HasEngine]] = field(default_factory=dict)
    waste: Waste = field(default_factory=Waste)
    blamed: dict[str, int] = field(default_factory=dict)
    warmed: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sessions = SessionRegistry(self.limits)
        self.slots = FairPlaces(
            self.limits.statements_running,
            waiting=self.limits.statements_queued,
            waiting_each=self.limits.statements_queued_per_user,
            gives_way=self.waste.is_much,
        )
        self.metadata_results = MetadataResults(
            most=self.limits.answered_rows,
            most_each=self.limits.answered_rows_per_user,
        )
        self.idle = IdleSessions(
            most=self.limits.idle_sessions, most_each=self.limits.idle_sessions_per_user
        )
        self.room = ReadAheadRoom(
            self.limits.read_ahead_bytes, self.limits.read_ahead_batch_bytes
        )

    def caller(self, user: str) -> Caller:
        """Return as whom this user's statements wait for a place to run in."""
        return Caller(user, self.limits.statements_running_per_user)

    def may_warm(self, user: str) -> bool:
        """Whether a session of theirs may be opened in the engine ahead of its first
        statement: one a second, for one that runs none costs the engine as much."""
        now = time.monotonic()
        if now - self.warmed.get(user, -math.inf) < WARM_SECONDS:
            return False
        self.warmed[user] = now
        return True

    def why_waiting(self, user: str) -> str:
        """Return what a statement of theirs waits for; empty when there is a place."""
        if not self.slots.must_wait(self.caller(user)):
            return ""
        if self.waste.is_much(user):
            return (
                "waiting: while others work, your statements run one at a time, for"
                f" those that were cancelled or failed took"
                f" {self.waste.seconds_of(user):.0f} s of the engine lately"
            )
        return f"waiting, {self.slots.waiting} statements wait already"

    @contextlib.asynccontextmanager
    async def place(self, user: str, operation: Operation) -> AsyncIterator[None]:
        """Hold a place to run a statement in, or to run it once more for a lost result.
        What comes to nothing is remembered of its user, but for an engine that ended
        under its user."""
        caller, rest = self.caller(user), 0.0
        await self.slots.acquire(caller)
        is_theirs, stopped_all = True, False
        try:
            yield
        except EngineUnavailable:
            is_theirs = operation.is_left  # and their session ended with them
            raise
        except EngineRefused as error:
            stopped_all = error.sql_state in _STOPPED_ALL
            raise
        finally:
            if is_theirs and (wasted := operation.seconds_wasted()):
                rest = self.waste.add(user, wasted, stopped_all=stopped_all)
            self.slots.release(caller, rest=rest)

    def note_ended(self, user: str, operation: Operation) -> None:
        """The engine ended under a statement. When its second one does, that is waste
        of its user, once for all their statements that were in that engine. A user
        who has left a statement has only ended their session under it."""
        if operation.run is None or operation.is_left:
            return
        start = operation.run.engine_start
        if len(operation.ended_starts) < 2 or self.blamed.get(user) == start:
            return
        self.blamed[user] = start
        self.waste.add(user, MOST_COUNTED_SECONDS)

    def open_statement(self, user: str) -> None:
        """Count it until `close_statement`; InvalidRequest for one too many."""
        own = self.statements[user]
        if own >= self.limits.operations_per_user:
            raise InvalidRequest(
                f"your sessions have {own} open operations",
                code="too_many_operations",
                hint="close statements that are done with",
            )
        self.statements[user] += 1

    def close_statement(self, user: str) -> None:
        """Count one of their statements no more."""
        discount(self.statements, user)

    def count_in_engine(self, user: str, asking: HasEngine) -> int:
        """Return how many sessions of a user the engine has without `asking`, which is
        counted from now on."""
        own = self.in_engine.setdefault(user, WeakSet())
        own.add(asking)
        return sum(side.is_held for side in own if side is not asking)

    def hold_text(self, user: str, size: int) -> Callable[[], None]:
        """Take room for a statement's text; call what is returned to give it back."""
        all_of_them, own = self.texts.total(), self.texts[user]
        if all_of_them + size > self.limits.statement_texts:
            raise _too_much_text(f"the statements that wait or run have {all_of_them}")
        if own + size > self.limits.statement_texts_per_user:
            raise _too_much_text(f"your statements that wait or run have {own}")
        self.texts[user] += size
        return functools.partial(discount, self.texts, user, size)

    def keep_reads(self, user: str, operation: Operation) -> None:
        """Count what a result was read from, by which a revoke ends it. What has no
        room is not known from now on: then any revoke of a right of theirs does."""
        self.forget_reads(user, operation)
        for ended in operation.runs[:-1]:
            ended.reads = None
        run = operation.run
        if run is None or run.reads is None:
            return
        size, limits = run.reads.size, self.limits
        if (
            self.reads[user] + size > limits.read_list_bytes_per_user
            or self.reads.total() + size > limits.read_list_bytes
        ):
            run.reads = run.reads.unknown()
            return
        self.reads[user] += size
        operation.held_reads = size

    def forget_reads(self, user: str, operation: Operation) -> None:
        """Count it no more. Idempotent."""
        discount(self.reads, user, operation.held_reads)
        operation.held_reads = 0


def _too_much_text(what: str) -> InvalidRequest:
    return InvalidRequest(
        f"{what} characters",
        code="too_many_statements",
        hint="try again later, or send shorter statements",
    )
