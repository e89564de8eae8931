"""An engine without Spark: scripted answers and faults, behind the same port.

For tests and for measuring the gateway alone. Passes the behaviour suite that the
real engine passes.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from catalog.access.principal_policy import PrincipalPolicy, ReadTables
from gateway.engines.port import (
    ALL_THERE,
    EngineColumn,
    EngineFacts,
    EngineOperation,
    EngineRefused,
    EngineState,
    EngineStatus,
    EngineUnavailable,
    FetchedBatch,
    OperationState,
    Orientation,
    Progress,
)
from gateway.hs2.rowset import encode_row_set
from gateway.hs2.values import TypeId
from gateway.operation import new_handle

LONG_POLL_SECONDS, WAITING_POLL_SECONDS = 5.0, 0.05
START_LOOK_SECONDS = 0.05
_NUMBER = re.compile(r"\s*select\s+(\d+)\s*", re.IGNORECASE)
_RANGE = re.compile(r"\s*select\s+\*\s+from\s+range\((\d+)\)\s*", re.IGNORECASE)


@dataclass(slots=True)
class FakeAnswer:
    """What a statement gives: after `seconds`, rows or an error; until then `waits`
    is what it waits for. Each fetch takes `fetch_seconds`. `is_whole`: the engine reads
    nothing for it any more."""

    columns: Sequence[EngineColumn] = (EngineColumn("Result", TypeId.STRING),)
    rows: Sequence[Sequence[object]] = ()
    seconds: float = 0.0
    error: str = ""
    sql_state: str = ""
    error_code: int = 0
    waits: str = ""
    fetch_seconds: float = 0.0
    is_whole: bool = False


@dataclass(slots=True)
class FakeFaults:
    """Knobs. Times in seconds; counts are of what still goes wrong."""

    start_seconds: float = 0.0
    failing_starts: int = 0
    acknowledge_seconds: float = 0.0
    failing_probes: int = 0


def answer_to(statement: str) -> FakeAnswer:
    """Answer `SELECT <n>` and `SELECT * FROM range(<n>)`; refuse the rest."""
    if re.match(r"\s*(use|set|reset)\b", statement, re.IGNORECASE):
        return FakeAnswer()
    if found := _NUMBER.fullmatch(statement):
        column = EngineColumn(found[1], TypeId.INT)
        return FakeAnswer([column], [(int(found[1]),)])
    if found := _RANGE.fullmatch(statement):
        rows = [(number,) for number in range(int(found[1]))]
        return FakeAnswer([EngineColumn("id", TypeId.BIGINT)], rows)
    return FakeAnswer(
        error="org.apache.hive.service.cli.HiveSQLException: Error running query: "
        f"[PARSE_SYNTAX_ERROR] Syntax error at or near '{statement.split()[:1]}'.\n"
        "\tat org.apache.spark.Fake.run(Fake.scala:1)",
        sql_state="42601",
    )


# as `ArrowRows` has them
PAGE_ROWS, PAGE_BYTES = 500, 1 << 20
PAGES = (EngineColumn("", TypeId.INT), EngineColumn("", TypeId.BINARY))


def pages_of(
    columns: Sequence[EngineColumn], rows: Sequence[Sequence[object]]
) -> list[tuple[int, bytes]]:
    """Numbers of rows, and these."""
    pages: list[list[Sequence[object]]] = [[]]
    size = 0
    for row in rows:
        if size > PAGE_BYTES or len(pages[-1]) == PAGE_ROWS:
            pages.append([])
            size = 0
        pages[-1].append(row)
        size += sum(len(str(value).encode()) for value in row)
    return [(len(page), arrow_page(columns, page)) for page in pages]


def arrow_page(
    columns: Sequence[EngineColumn], rows: Sequence[Sequence[object]]
) -> bytes:
    """Rows as the engine's `ArrowRows` has them in a page."""
    kinds = {
        TypeId.INT: pa.int32(),
        TypeId.BIGINT: pa.int64(),
        TypeId.DOUBLE: pa.float64(),
        TypeId.BOOLEAN: pa.bool_(),
        TypeId.BINARY: pa.binary(),
        TypeId.DECIMAL: pa.decimal128(38, 2),
    }
    arrays = [
        pa.array(values, kinds.get(TypeId(column.type_id), pa.string()))
        for column, values in zip(columns, zip(*rows, strict=True), strict=True)
    ]
    names = [f"c{number}" for number in range(len(arrays))]
    batch = pa.RecordBatch.from_arrays(arrays, names)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    page: bytes = pa.Codec("zstd").compress(sink.getvalue(), asbytes=True)
    return page


@dataclass(slots=True)
class _Statement:
    answer: FakeAnswer
    due: float
    state: OperationState = OperationState.RUNNING
    position: int = 0
    is_told: bool = False  # which columns it has
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class FakeSession:
    """One session; `engine.journal` sees what it was asked."""

    def __init__(
        self, engine: FakeEngine, principal: str, *, is_in_arrow: bool = False
    ) -> None:
        self.principal = principal
        self._is_in_arrow = is_in_arrow
        self.is_open = True
        self.fetching = 0
        self._engine = engine
        self._process = engine.starts
        self._statements: dict[bytes, _Statement] = {}

    @property
    def is_closed(self) -> bool:
        """True when closed, or when the engine it belonged to is gone."""
        gone = self._engine.starts != self._process or not self._engine.is_ready
        return not self.is_open or gone

    async def execute(
        self, statement: str, settings: Mapping[str, str] | None = None
    ) -> EngineOperation:
        """Start a statement."""
        self._require_open()
        self._engine.require_policy(self.principal)
        self._engine.journal.append((self.principal, statement))
        self._engine.settings.append(dict(settings or {}))
        answer = self._engine.answers(statement)
        handle = new_handle()
        due = time.monotonic() + answer.seconds
        self._statements[handle.guid] = _Statement(answer, due)
        return EngineOperation(handle.guid, handle.secret)

    async def query(
        self, statement: str, settings: Mapping[str, str] | None, max_rows: int
    ) -> tuple[EngineOperation, asyncio.Future[FetchedBatch]]:
        """Start a statement, and fetch of it."""
        operation = await self.execute(statement, settings)
        first = asyncio.create_task(self.fetch(operation, Orientation.NEXT, max_rows))
        first.add_done_callback(lambda f: f.cancelled() or f.exception())
        return operation, first

    async def status(self, operation: EngineOperation) -> EngineStatus:
        """Wait up to 5 s for the end."""
        self._engine.asked_status += 1
        return await self._status(operation)

    async def _status(self, operation: EngineOperation) -> EngineStatus:
        found = self._find(operation)
        longest = WAITING_POLL_SECONDS if found.answer.waits else LONG_POLL_SECONDS
        wait = min(found.due - time.monotonic(), longest)
        if found.state is OperationState.RUNNING and wait > 0:
            try:
                async with asyncio.timeout(wait):
                    await found.changed.wait()
            except TimeoutError:
                pass
        self._require_open()
        if found.state is OperationState.RUNNING and time.monotonic() >= found.due:
            failed = bool(found.answer.error)
            found.state = OperationState.ERROR if failed else OperationState.FINISHED
        if found.state is OperationState.RUNNING:
            return EngineStatus(found.state, message=found.answer.waits)
        if found.state is OperationState.FINISHED and found.answer.is_whole:
            return EngineStatus(found.state, message=ALL_THERE)
        return EngineStatus(
            found.state,
            found.answer.sql_state,
            found.answer.error_code,
            found.answer.error,
        )

    async def fetch(
        self, operation: EngineOperation, orientation: Orientation, max_rows: int
    ) -> FetchedBatch:
        """Return scripted rows; an empty batch has no bytes."""
        found = self._find(operation)
        told = None
        if not found.is_told:
            await self._status(operation)
            if found.state is not OperationState.FINISHED:
                return FetchedBatch(b"", has_more_rows=False, rows=0)
            told, found.is_told = tuple(found.answer.columns), True
        if found.state is not OperationState.FINISHED:
            raise EngineRefused(f"Expected state FINISHED, but found {found.state}")
        if found.answer.fetch_seconds and max_rows:
            await self._compute(found)
            self._find(operation)  # it may have been closed by now
        if orientation is Orientation.FIRST:
            found.position = 0
        columns: Sequence[EngineColumn] = found.answer.columns
        most = max_rows * (PAGE_ROWS if self._is_in_arrow else 1)
        rows = found.answer.rows[found.position : found.position + most]
        found.position += len(rows)
        if self._is_in_arrow and rows:
            # another process does that to the rows of the real one
            rows, columns = await asyncio.to_thread(pages_of, columns, rows), PAGES
        types = [column.type_id for column in columns]
        encoded = encode_row_set(types, rows) if rows else b""
        return FetchedBatch(encoded, has_more_rows=False, rows=len(rows), columns=told)

    async def _compute(self, statement: _Statement) -> None:
        self.fetching += 1
        try:
            async with asyncio.timeout(statement.answer.fetch_seconds):
                await statement.changed.wait()
        except TimeoutError:
            return
        finally:
            self.fetching -= 1

    async def cancel(self, operation: EngineOperation) -> None:
        """Stop a statement."""
        found = self._statements.get(operation.guid)
        if found and not found.state.is_terminal:
            found.state = OperationState.CANCELED
            self._engine.cancelled += 1
            found.changed.set()

    async def close_operation(self, operation: EngineOperation) -> None:
        """Forget a statement."""
        if found := self._statements.pop(operation.guid, None):
            found.changed.set()

    def close_idle(self) -> None:
        """It has nothing to spare."""

    async def close(self) -> None:
        """End the session."""
        if self.is_open:
            self.is_open = False
            self._engine.sessions.discard(self)
            for statement in self._statements.values():
                statement.changed.set()

    def _find(self, operation: EngineOperation) -> _Statement:
        self._require_open()
        found = self._statements.get(operation.guid)
        if found is None:
            raise EngineRefused("Invalid OperationHandle")
        return found

    def _require_open(self) -> None:
        if self.is_closed:
            raise EngineUnavailable("the engine session is closed")


class FakeEngine:
    """`EngineClient` without a process."""

    def __init__(
        self,
        *,
        answers: Callable[[str], FakeAnswer] = answer_to,
        faults: FakeFaults | None = None,
    ) -> None:
        self.answers = answers
        self.faults = faults or FakeFaults()
        self.journal: list[tuple[str, str]] = []
        self.settings: list[dict[str, str]] = []  # of each statement in the journal
        self.configurations: list[dict[str, str]] = []
        self.sessions: set[FakeSession] = set()
        self.policies: dict[str, PrincipalPolicy] = {}
        self.starts = 0
        self.cancelled = 0
        self.asked_status = 0
        self.read: ReadTables | None = None
        self._state = EngineState.STOPPED
        self._seen_at: float | None = None

    @property
    def is_ready(self) -> bool:
        """True while it takes statements."""
        return self._state is EngineState.READY

    def facts(self) -> EngineFacts:
        """Return what is known now."""
        return EngineFacts(
            engine_id="fake",
            state=self._state,
            last_seen_at=self._seen_at,
            open_sessions=len(self.sessions),
            starts=self.starts,
        )

    async def start(self) -> None:
        """Become READY after the scripted time, or fail."""
        self._state, began = EngineState.STARTING, time.monotonic()
        # looked at again: a test may shorten it
        while (left := began + self.faults.start_seconds - time.monotonic()) > 0:
            await asyncio.sleep(min(left, START_LOOK_SECONDS))
        if self.faults.failing_starts:
            self.faults.failing_starts -= 1
            self._state = EngineState.FAILED
            raise EngineUnavailable("the fake engine is configured not to start")
        self.starts += 1
        self._state = EngineState.READY
        self._seen_at = time.monotonic()

    async def probe(self) -> None:
        """Answer, or fail as scripted."""
        if self.faults.failing_probes:
            self.faults.failing_probes -= 1
            raise EngineUnavailable("the fake engine is configured not to answer")
        self._require_ready()
        self._seen_at = time.monotonic()

    async def push_policy(self, policy: PrincipalPolicy) -> None:
        """Store a policy and acknowledge it."""
        self._require_ready()
        await asyncio.sleep(self.faults.acknowledge_seconds)
        self.policies[policy.principal] = policy

    def acknowledged_version(self, principal: str) -> int:
        """Newest version stored."""
        known = self.policies.get(principal)
        return known.version if known and self.is_ready else -1

    async def forget_principal(self, principal: str) -> None:
        """Drop a policy."""
        self.policies.pop(principal, None)

    async def open_session(
        self, principal: str, configuration: Mapping[str, str]
    ) -> FakeSession:
        """Open a session."""
        self._require_ready()
        self.configurations.append(dict(configuration))
        is_in_arrow = configuration.get("set:hiveconf:sluice.results") == "arrow"
        session = FakeSession(self, principal, is_in_arrow=is_in_arrow)
        self.sessions.add(session)
        return session

    def progress(self, operation: EngineOperation) -> Progress | None:
        """Of what waits only: its one task."""
        for session in self.sessions:
            found = session._statements.get(operation.guid)
            if found and found.answer.waits:
                return Progress(0, 1, 0, 1, 0, 0, waits_for=found.answer.waits)
        return None

    def reads(self, operation: EngineOperation) -> ReadTables | None:
        """The same of every statement."""
        return self.read

    async def stop(self, *, grace_seconds: float) -> None:
        """End."""
        self.die(EngineState.STOPPED)

    def finish(self) -> None:
        """Every statement has run long enough."""
        for session in self.sessions:
            for statement in session._statements.values():
                statement.due = time.monotonic()
                statement.changed.set()

    def die(self, state: EngineState = EngineState.FAILED) -> None:
        """Be gone at once, as a killed process is."""
        self._state = state
        self.policies.clear()
        for session in list(self.sessions):
            for statement in session._statements.values():
                statement.changed.set()
        self.sessions.clear()

    def require_policy(self, principal: str) -> None:
        """Refuse a principal whose policy never came: default deny."""
        known = self.policies.get(principal)
        if known is None or not known.is_active:
            raise EngineRefused(
                f"[DENIED] {principal} has no policy", sql_state="42501"
            )

    def _require_ready(self) -> None:
        if not self.is_ready:
            raise EngineUnavailable("the fake engine is not running")
