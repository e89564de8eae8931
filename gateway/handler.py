"""From a client's call to its reply: one method per kind of call.

Sessions and operations are found only among those of the proven user, so a handle of
another user is unknown here. Must not know sockets or engines.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from catalog.access.proofs import Proof
from core.errors import InvalidRequest, SluiceError
from gateway import settable
from gateway.engines.port import EngineColumn, EngineRefused, OperationState
from gateway.engines.port import Orientation as EngineOrientation
from gateway.faults import GENERAL, Fault, clean
from gateway.hs2 import messages, values
from gateway.hs2.calls import REPLIES
from gateway.hs2.metadata import info_value
from gateway.hs2.rowset import encode_row_set
from gateway.hs2.values import FetchOrientation, State, StatusCode
from gateway.metadata import MetadataService
from gateway.metrics import FETCHED_BYTES, FETCHED_ROWS
from gateway.operation import Operation
from gateway.services import Services
from gateway.session import Session, sql_state_of

log = logging.getLogger(__name__)

ENGINE_VERSION = "3.5.7"
DEFAULT_FETCH = 1000
# rows of the gateway's own results are encoded on the event loop
LOCAL_FETCH = 1000
LONGEST_CLIENT = 100
# for the columns of a statement that runs; who asks has nothing else to do
SCHEMA_SECONDS = 5.0
_LOG_FETCH = 1
_LOG_TYPES = (values.TypeId.STRING,)
_ORIENTATIONS = {
    FetchOrientation.NEXT: EngineOrientation.NEXT,
    FetchOrientation.FIRST: EngineOrientation.FIRST,
}

# What beeline 2.3 draws, by place: InPlaceUpdate of hive-common
_BAR = (
    "VERTICES",
    "MODE",
    "STATUS",
    "TOTAL",
    "COMPLETED",
    "RUNNING",
    "PENDING",
    "FAILED",
    "KILLED",
)


class _NoSuchHandle(InvalidRequest):
    """The handle was never given to this user, or is closed."""


class Handler:
    """Serves one proven user at one address. Sessions that are opened here end with it
    by `close`, or with `is_detached` once they were idle."""

    def __init__(
        self,
        services: Services,
        user: str,
        address: str,
        *,
        proof: Proof | None = None,
        is_detached: bool = False,
    ) -> None:
        self.user = user
        self._proof = proof
        self._is_detached = is_detached
        self._services = services
        self._address = address
        self._metadata = MetadataService(services.store)
        self._calls: dict[type, Callable[[Any], Awaitable[messages.Reply]]] = {
            messages.OpenSession: self._open_session,
            messages.CloseSession: self._close_session,
            messages.GetInfo: self._get_info,
            messages.ExecuteStatement: self._execute,
            messages.GetOperationStatus: self._status,
            messages.CancelOperation: self._cancel,
            messages.CloseOperation: self._close_operation,
            messages.GetResultSetMetadata: self._result_schema,
            messages.FetchResults: self._fetch,
            messages.GetDelegationToken: self._no_delegation,
            messages.CancelDelegationToken: self._no_delegation,
            messages.RenewDelegationToken: self._no_delegation,
            messages.GetQueryId: self._query_id,
            messages.SetClientInfo: self._client_info,
        }

    async def handle(self, request: messages.Request) -> messages.Reply:
        """Return the reply; errors become its status, never an exception."""
        try:
            if self._metadata.answers(request):
                return await self._answer_metadata(request)
            return await self._calls[type(request)](request)
        except _NoSuchHandle as error:
            unknown = values.failure(error.message, sql_state=GENERAL)
            status = replace(unknown, code=StatusCode.INVALID_HANDLE)
        except SluiceError as error:
            cleaned = clean(
                str(error),
                sql_state=sql_state_of(error),
                lake=self._services.lake_root,
            )
            status = _failure(cleaned)
        except Exception:
            log.exception("%s failed inside the gateway", type(request).__name__)
            status = values.failure("the gateway failed; see its log")
        reply: Any = REPLIES[type(request)]
        if reply is messages.GetQueryIdReply:
            return messages.GetQueryIdReply()
        failed: messages.Reply = reply(status=status)
        return failed

    async def close(self) -> None:
        await self._services.sessions.end_of_connection(self.user, self)

    def _session(self, handle: values.SessionHandle) -> Session:
        found = self._services.sessions.find(self.user, handle.id)
        if found is None:
            raise _NoSuchHandle("Invalid SessionHandle: it is closed or not yours")
        found.touched = time.monotonic()
        return found

    def _operation(self, handle: values.OperationHandle) -> tuple[Session, Operation]:
        found = self._services.sessions.find_operation(self.user, handle.id)
        if found is None:
            raise _NoSuchHandle("Invalid OperationHandle: it is closed or not yours")
        found[0].touched = time.monotonic()
        return found

    async def _open_session(self, request: messages.OpenSession) -> messages.Reply:
        protocol = min(request.client_protocol, values.SERVER_VERSION)
        if protocol < values.V6:
            raise InvalidRequest(
                f"protocol version V{request.client_protocol + 1} is too old",
                hint="use a client of Hive 0.13 or newer (V6 at least)",
            )
        sessions = self._services.sessions
        sessions.require_room(self.user)
        settings = settable.session_settings(
            request.configuration or {},
            username=self.user,
            compat="pyhive" if protocol == values.V6 else "spark",
        )
        session = Session(
            self._services,
            self.user,
            protocol=protocol,
            address=self._address,
            settings=settings,
        )
        session.proof = self._proof
        session.connection = None if self._is_detached else self
        if settings.database:
            await session.use(settings.database)
        sessions.require_room(self.user)
        sessions.add(session)
        session.warm()
        return messages.OpenSessionReply(
            protocol=protocol,
            session=values.SessionHandle(id=session.handle),
            configuration={
                "hive.server2.thrift.resultset.default.fetch.size": str(DEFAULT_FETCH)
            },
        )

    async def _close_session(self, request: messages.CloseSession) -> messages.Reply:
        await self._services.sessions.end([self._session(request.session)])
        return messages.StatusReply()

    async def _get_info(self, request: messages.GetInfo) -> messages.Reply:
        self._session(request.session)
        value = info_value(request.kind, version=ENGINE_VERSION, username=self.user)
        return messages.GetInfoReply(value=value)

    async def _execute(self, request: messages.ExecuteStatement) -> messages.Reply:
        session = self._session(request.session)
        operation = session.start(
            request.statement,
            timeout_seconds=request.timeout_seconds,
            settings=settable.statement_settings(
                request.overlay or {}, username=self.user
            ),
        )
        if not request.run_async:
            try:
                await operation.wait()
            except asyncio.CancelledError:  # nobody is left who could know its handle
                await session.free(operation)
                raise
            if operation.fault:
                await session.free(operation)
                return messages.OperationReply(status=_failure(operation.fault))
        return messages.OperationReply(operation=_handle(operation))

    async def _answer_metadata(self, request: Any) -> messages.Reply:
        session = self._session(request.session)
        await session.make_room()
        operation = await self._metadata.answer(self.user, request)
        session.add(operation)
        await session.keep(operation)
        return messages.OperationReply(operation=_handle(operation))

    async def _status(self, request: messages.GetOperationStatus) -> messages.Reply:
        session, operation = self._operation(request.operation)
        await operation.wait(self._services.limits.long_poll_seconds)
        fault = operation.fault
        completed = operation.completed
        return messages.GetOperationStatusReply(
            state=_shown_state(operation.state, session.protocol),
            sql_state=fault.sql_state if fault else None,
            error_code=fault.error_code if fault else None,
            message=fault.message if fault else None,
            task_status="[]",
            started_ms=int(operation.started * 1000),
            completed_ms=int(completed * 1000) if completed else 0,
            has_result_set=operation.has_result_set,
            progress=self._progress(operation) if request.wants_progress else None,
        )

    def _progress(self, operation: Operation) -> messages.Progress:
        counts = None
        if operation.run and operation.run.handle:
            counts = self._services.supervisor.client.progress(operation.run.handle)
        done, total = (counts.tasks_done, counts.tasks) if counts else (0, 0)
        return messages.Progress(
            headers=_BAR,
            rows=(_bar(done, total, operation.state),),
            fraction=done / total if total else 0.0,
            status=0 if operation.is_alive else 1,
            footer=f"{done} of {total} tasks",
            started_ms=int(operation.started * 1000),
        )

    async def _cancel(self, request: messages.CancelOperation) -> messages.Reply:
        session, operation = self._operation(request.operation)
        await session.cancel(operation)
        return messages.StatusReply()

    async def _close_operation(
        self, request: messages.CloseOperation
    ) -> messages.Reply:
        try:
            session, operation = self._operation(request.operation)
        except _NoSuchHandle:
            return messages.StatusReply()
        await session.free(operation)
        return messages.StatusReply()

    async def _result_schema(
        self, request: messages.GetResultSetMetadata
    ) -> messages.Reply:
        _, operation = self._operation(request.operation)
        await operation.wait(SCHEMA_SECONDS)
        return messages.GetResultSetMetadataReply(schema=_schema(operation.columns))

    async def _fetch(self, request: messages.FetchResults) -> messages.Reply:
        session, operation = self._operation(request.operation)
        operation.touched = time.monotonic()
        count = min(max(request.max_rows, 1), self._services.limits.max_fetch_rows)
        if request.fetch_type == _LOG_FETCH:
            lines = [(line,) for line in operation.new_log_lines()]
            return _rows(encode_row_set(_LOG_TYPES, lines))
        orientation = _ORIENTATIONS.get(_orientation(request.orientation))
        if orientation is None:
            raise InvalidRequest("only FETCH_NEXT and FETCH_FIRST are supported")
        _require_finished(operation)
        if operation.local:
            if orientation is EngineOrientation.FIRST:
                operation.local.position = 0
            rows = await operation.local.take(min(count, LOCAL_FETCH))
            await session.keep(operation)
            return _rows(encode_row_set(operation.local.type_ids, rows))
        if operation.reader is None or not operation.has_result_set:
            raise InvalidRequest("the statement has no result set")
        batch = await session.fetch(operation, orientation, count)
        operation.rows += max(batch.rows, 0)
        FETCHED_ROWS.inc(max(batch.rows, 0))
        FETCHED_BYTES.inc(len(batch.row_set))
        kinds = [column.type_id for column in operation.columns]
        row_set = batch.row_set or encode_row_set(kinds, [])
        return _rows(row_set, has_more=batch.has_more_rows)

    async def _no_delegation(self, request: Any) -> messages.Reply:
        return messages.StatusReply(
            status=values.failure("Delegation token is not supported")
        )

    async def _query_id(self, request: messages.GetQueryId) -> messages.Reply:
        _, operation = self._operation(request.operation)
        return messages.GetQueryIdReply(query_id=operation.id)

    async def _client_info(self, request: messages.SetClientInfo) -> messages.Reply:
        session = self._session(request.session)
        given = request.configuration or {}
        name = given.get("ApplicationName") or given.get("ClientHostname")
        session.client = (name or session.client)[:LONGEST_CLIENT]
        return messages.StatusReply()


def _failure(fault: Fault) -> values.Status:
    return values.failure(
        fault.message, sql_state=fault.sql_state, code=fault.error_code
    )


def _bar(done: int, total: int, state: object) -> tuple[str, ...]:
    """The bar's only line. A column less ends the client's statement with an error."""
    return ("Spark", "engine", str(state), str(total), str(done), *"-" * 4)


def _handle(operation: Operation) -> values.OperationHandle:
    return values.OperationHandle(
        id=operation.handle,
        type=operation.kind,
        has_result_set=operation.has_result_set,
    )


def _shown_state(state: OperationState, protocol: int) -> int:
    if state is OperationState.TIMEDOUT and protocol <= values.V8:
        return State.CANCELED
    return State[state.name]


def _orientation(number: int) -> FetchOrientation:
    try:
        return FetchOrientation(number)
    except ValueError:
        return FetchOrientation.PRIOR


def _require_finished(operation: Operation) -> None:
    if operation.state is OperationState.FINISHED:
        return
    fault = operation.fault
    if fault:
        raise EngineRefused(fault.message, sql_state=fault.sql_state)
    raise InvalidRequest(
        f"the statement is {operation.state}, its result cannot be fetched yet",
        hint="poll GetOperationStatus until it is FINISHED",
    )


def _schema(columns: tuple[EngineColumn, ...]) -> values.TableSchema:
    return values.TableSchema(
        columns=tuple(
            values.column_desc(
                column.name,
                column.type_id,
                position,
                qualifiers=column.qualifiers,
                comment=column.comment,
            )
            for position, column in enumerate(columns, start=1)
        )
    )


def _rows(
    row_set: bytes | memoryview, *, has_more: bool = False
) -> messages.FetchResultsReply:
    return messages.FetchResultsReply(has_more_rows=has_more, results=row_set)
