"""What all sessions of a gateway process share."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Protocol
from weakref import WeakSet

from catalog.access.principal_policy import PrincipalPolicy
from core.counts import discount
from core.errors import InvalidRequest
from core.sentences import Sentence
from gateway.abuse_throttle import MOST_COUNTED_SECONDS, Waste
from gateway.budget import Budget
from gateway.engines.port import EngineRefused, EngineUnavailable
from gateway.engines.supervisor import EngineSupervisor
from gateway.fair import Caller, FairPlaces
from gateway.faults import DISK_FULL, TOO_LARGE
from gateway.idle_sessions import IdleSessions
from gateway.limits import GatewayLimits
from gateway.operation import Operation
from gateway.result_reader import ResultReader
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
        self.rows: Budget[str, Operation] = Budget(most, most_each)
        self._owners: dict[Operation, Owner] = {}

    async def keep(self, user: str, owner: Owner, operation: Operation) -> None:
        """Count a result's rows as they are now, and make room for them."""
        size = len(operation.local.rows) if operation.local else 0
        self.rows.hold(user, operation, size)
        self._owners[operation] = owner
        while victim := self._victim(user, spared=operation):
            owner = self._owners[victim]
            self.forget(victim)
            await owner.free(victim)

    def _victim(self, user: str, *, spared: Operation) -> Operation | None:
        of_losers = itertools.chain.from_iterable(self.rows.losers(user))
        return next((one for one, _ in of_losers if one is not spared), None)

    def forget(self, operation: Operation) -> None:
        """Count a result no more. Idempotent."""
        self.rows.let_go(operation)
        self._owners.pop(operation, None)


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
    read_ahead: Budget[ResultReader, ResultReader] = field(init=False)
    metadata_results: MetadataResults = field(init=False)
    idle: IdleSessions = field(init=False)
    texts: Budget[str, object] = field(init=False)
    reads: Budget[str, Operation] = field(init=False)
    statements: Counter[str] = field(default_factory=Counter)
    policies: dict[str, PrincipalPolicy] = field(default_factory=dict)
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
        self.read_ahead = Budget(
            self.limits.read_ahead_bytes, self.limits.read_ahead_batch_bytes
        )
        self.texts = Budget(
            self.limits.statement_texts, self.limits.statement_texts_per_user
        )
        self.reads = Budget(
            self.limits.read_list_bytes, self.limits.read_list_bytes_per_user
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
            return Sentence(
                "waiting: while others work, your statements run one at a time,"
                " for those that were cancelled or failed took %(seconds)s s of"
                " the engine lately",
                seconds=f"{self.waste.seconds_of(user):.0f}",
            )
        return Sentence(
            "waiting, %(count)s statements wait already", count=self.slots.waiting
        )

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
                "your sessions have %(count)s open operations",
                count=own,
                code="too_many_operations",
                hint="close statements that are done with",
            )
        self.statements[user] += 1

    def close_statement(self, user: str) -> None:
        discount(self.statements, user)

    def count_in_engine(self, user: str, asking: HasEngine) -> int:
        """Return how many sessions of a user the engine has without `asking`, which is
        counted from now on."""
        own = self.in_engine.setdefault(user, WeakSet())
        own.add(asking)
        return sum(side.is_held for side in own if side is not asking)

    def hold_text(self, user: str, size: int) -> Callable[[], None]:
        """Take room for a statement's text; call what is returned to give it back."""
        if self.texts.is_beyond_total(size):
            raise _too_much_text(
                Sentence(
                    "the statements that wait or run have %(count)s characters",
                    count=self.texts.held,
                )
            )
        if self.texts.is_beyond_share(user, size):
            raise _too_much_text(
                Sentence(
                    "your statements that wait or run have %(count)s characters",
                    count=self.texts.share(user),
                )
            )
        text = object()
        self.texts.hold(user, text, size)
        return functools.partial(self.texts.let_go, text)

    def keep_reads(self, user: str, operation: Operation) -> None:
        """Count what a result was read from, by which a revoke ends it. What has no
        room is not known from now on: then any revoke of a right of theirs does."""
        self.reads.let_go(operation)
        for ended in operation.runs[:-1]:
            ended.reads = None
        run = operation.run
        if run is None or run.reads is None:
            return
        if self.reads.fits(user, run.reads.size):
            self.reads.hold(user, operation, run.reads.size)
        else:
            run.reads = run.reads.unknown()


def _too_much_text(what: str) -> InvalidRequest:
    return InvalidRequest(
        what,
        code="too_many_statements",
        hint="try again later, or send shorter statements",
    )
