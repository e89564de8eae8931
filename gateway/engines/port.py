"""What the gateway asks of an engine, and what an engine asks of the gateway.

The gateway front talks to `EngineClient` and `EngineSession` only. The real link
(launcher, Thrift sockets, control channel) and `fake` implement the same port and
pass the same behaviour suite. This module must not know Thrift, Spark or Django.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Protocol

from catalog.access.principal_policy import PrincipalPolicy, ReadTables
from catalog.selectors.locations import LakeLocation, LiveTable
from core.errors import TerminalError, TransientError
from gateway.engines.lifecycle import EngineFacts, EngineState

__all__ = ["EngineFacts", "EngineState"]


class EngineUnavailable(TransientError):
    """The engine is not there or does not answer; a statement on it failed (08S01)."""

    default_code: ClassVar[str] = "engine_unavailable"


class EngineFull(EngineUnavailable):
    """The engine takes no further session now."""

    default_code: ClassVar[str] = "engine_full"


class EngineRefused(TerminalError):
    """The engine answered with an error status; `message` is its raw text."""

    default_code: ClassVar[str] = "engine_refused"

    def __init__(self, message: str, *, sql_state: str = "", error_code: int = 0):
        super().__init__(message)
        self.sql_state = sql_state
        self.error_code = error_code


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a running statement is; `rows` and `bytes` of what it has read.
    `waits_for`: why no task of it goes on; empty while one does."""

    tasks_done: int
    tasks: int
    stages_done: int
    stages: int
    rows: int
    bytes: int
    waits_for: str = ""


class EngineQuestions(Protocol):
    """What an engine may ask over its control channel; the gateway answers.

    Both raise on an unreachable database; the channel then answers the engine
    with an error instead of "absent".
    """

    async def look_up(self, database: str, table: str) -> LakeLocation | None:
        """Return the lake table's place, or None when it does not exist."""

    async def lake_name_of(
        self, datasource: str, database: str, table: str
    ) -> str | None:
        """Return the lake's `db.table` for a table named as its live source has it."""

    async def list_tables(
        self, principal: str, database: str, pattern: str
    ) -> list[tuple[str, str]]:
        """Return (database, table) names the principal may discover."""

    async def columns_by_table(
        self, principal: str, database: str, pattern: str
    ) -> dict[str, list[tuple[str, str, bool]]]:
        """Return name, type and whether it may be NULL of the columns that the
        principal may see, by table of a database, whose names match a JDBC pattern."""

    async def live_table(
        self, principal: str, datasource: str, database: str, table: str
    ) -> LiveTable | None:
        """Return a table of a live source that the principal may see, and how it is
        reached, if they may read it."""

    async def live_names(
        self, principal: str, datasource: str, database: str
    ) -> list[str]:
        """Return names that the principal may see: of live sources; of the databases of
        one; of the tables in one of these."""

    async def live_versions(self, sources: Collection[str]) -> dict[str, str]:
        """Return by name, of those that there are, what changes with how they are
        reached."""

    async def end_live_statements(self, sources: Collection[str], mark: str) -> None:
        """End what an engine that is gone has left at sources."""

    def db_read_age_ms(self) -> int:
        """Milliseconds since the last successful read of the metadata database."""


ALL_THERE = "[WHOLE]"


class OperationState(StrEnum):
    """State of a statement inside the engine, HiveServer2's names."""

    INITIALIZED = "INITIALIZED"
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    CLOSED = "CLOSED"
    ERROR = "ERROR"
    TIMEDOUT = "TIMEDOUT"
    UNKNOWN = "UNKNOWN"

    @property
    def is_terminal(self) -> bool:
        """True when the engine will not leave this state on its own any more."""
        return self not in {
            OperationState.INITIALIZED,
            OperationState.PENDING,
            OperationState.RUNNING,
        }


@dataclass(frozen=True, slots=True)
class EngineOperation:
    """Opaque handle of a statement inside one engine session. Never shown outside."""

    guid: bytes
    secret: bytes
    has_result_set: bool = True


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """Where a statement stands. `message` is the engine's raw text, unscrubbed: why it
    failed, or while it runs what it waits for, or that it is whole."""

    state: OperationState
    sql_state: str = ""
    error_code: int = 0
    message: str = ""

    @property
    def is_whole(self) -> bool:
        """True when the engine has all rows of the result and reads nothing for it any
        more; not before its first fetch."""
        return self.state is OperationState.FINISHED and ALL_THERE in self.message


@dataclass(frozen=True, slots=True)
class EngineColumn:
    """One result column: HiveServer2 type id (TTypeId) with decimal/char qualifiers."""

    name: str
    type_id: int
    qualifiers: Mapping[str, int] = field(default_factory=dict)
    comment: str = ""


@dataclass(frozen=True, slots=True)
class FetchedBatch:
    """One batch, still encoded.

    `row_set` holds the bytes of the Thrift binary-protocol struct `TRowSet` as the
    engine sent them (empty for an empty batch), `rows` the count when it is known
    without decoding (-1 otherwise). `columns` come with the first batch alone.
    """

    row_set: bytes | memoryview
    has_more_rows: bool
    rows: int = -1
    columns: tuple[EngineColumn, ...] | None = None


class Orientation(StrEnum):
    """FetchResults orientations an engine must know."""

    NEXT = "NEXT"
    FIRST = "FIRST"


class EngineSession(Protocol):
    """One user's session inside an engine. Calls may overlap; cancel never waits.

    Every call raises `EngineUnavailable` when the engine is gone and `EngineRefused`
    when it answered with an error status.
    """

    @property
    def is_closed(self) -> bool:
        """True when the engine's side of the session is gone."""

    async def execute(
        self, statement: str, settings: Mapping[str, str] | None = None
    ) -> EngineOperation:
        """Start a statement and return; errors of analysis may come in `status`.

        `settings` hold for this statement alone; a statement that changes the session
        must have none.
        """

    async def query(
        self, statement: str, settings: Mapping[str, str] | None, max_rows: int
    ) -> tuple[EngineOperation, asyncio.Future[FetchedBatch]]:
        """As `execute`; in the same turn ask for the first batch, as `fetch` does."""

    async def status(self, operation: EngineOperation) -> EngineStatus:
        """Return the state, waiting up to 5 s for a terminal one."""

    async def fetch(
        self, operation: EngineOperation, orientation: Orientation, max_rows: int
    ) -> FetchedBatch:
        """Return the next (or first) batch; of no rows, only the columns.

        Before the first one, wait up to 5 s for the statement to finish. A batch
        without columns: it runs on or came to nothing, which `status` tells.
        """

    async def cancel(self, operation: EngineOperation) -> None:
        """Stop the statement and its Spark job. Idempotent; does not queue behind
        `status` or `fetch`."""

    async def close_operation(self, operation: EngineOperation) -> None:
        """Free the statement's result, whose reading ends. Idempotent; does not queue
        behind `status` or `fetch`."""

    def close_idle(self) -> None:
        """Free what was opened for calls that overlapped and is not used now."""

    async def close(self) -> None:
        """End the session and free its sockets. Idempotent, never raises."""


class EngineClient(Protocol):
    """One engine process, seen from the gateway."""

    def facts(self) -> EngineFacts:
        """Return what is known now, without waiting."""

    async def start(self) -> None:
        """Launch the process; return when its Thrift port and Guard are READY.

        Raises `EngineUnavailable` with the reason and the tail of the engine's log.
        """

    async def probe(self) -> None:
        """Ask the engine something cheap; raise `EngineUnavailable` if it is dead."""

    async def push_policy(self, policy: PrincipalPolicy) -> None:
        """Send a policy and return when the engine acknowledged that version."""

    def acknowledged_version(self, principal: str) -> int:
        """Newest policy version this engine process acknowledged, -1 for none."""

    async def forget_principal(self, principal: str) -> None:
        """Drop a principal's policy: the Guard then denies them everything."""

    async def open_session(
        self, principal: str, configuration: Mapping[str, str]
    ) -> EngineSession:
        """Open a session whose user is `principal`.

        `configuration` holds already filtered OpenSession keys of the engine
        (`set:hiveconf:<key>`, `use:database`).
        """

    def progress(self, operation: EngineOperation) -> Progress | None:
        """Return how far a running statement is, None when unknown."""

    def reads(self, operation: EngineOperation) -> ReadTables | None:
        """Hand out, once, what a query reads, told before it has any answer; None for
        what is none, and when the engine could not tell."""

    async def stop(self, *, grace_seconds: float) -> None:
        """Ask the process to end, kill it after the grace. Idempotent."""
