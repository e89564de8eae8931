"""`EngineSession` over an engine's Thrift Server. Must not know who may do what."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from core.errors import SluiceError
from gateway.engines.channel import EngineChannel
from gateway.engines.port import (
    EngineColumn,
    EngineOperation,
    EngineRefused,
    EngineStatus,
    EngineUnavailable,
    FetchedBatch,
    OperationState,
    Orientation,
)
from gateway.engines.session_channels import ChannelOpener, SessionChannels
from gateway.hs2 import calls, messages, rowset
from gateway.hs2.errors import MessageError, ProtocolError, RemoteFault
from gateway.hs2.values import (
    V8,
    FetchOrientation,
    Handle,
    OperationHandle,
    SessionHandle,
    State,
    Status,
    StatusCode,
)

PROTOCOL = V8
_FINE = {StatusCode.SUCCESS, StatusCode.SUCCESS_WITH_INFO, StatusCode.STILL_EXECUTING}
# Answered from what the engine has in memory: other calls may wait behind it, and it
# for none of them.
_BRIEF = messages.CloseOperation
# What a channel began last, before anybody knows its handle.
_LAST = EngineOperation(bytes(16), bytes(16))
_ORIENTATIONS = {
    Orientation.NEXT: FetchOrientation.NEXT,
    Orientation.FIRST: FetchOrientation.FIRST,
}


class ThriftEngineSession:
    """One engine session. `on_close` is told once, when it ended."""

    def __init__(
        self,
        opener: ChannelOpener,
        owner: EngineChannel,
        session: SessionHandle,
        *,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self._channels = SessionChannels(opener, owner)
        self._session = session
        self._on_close = on_close
        self._is_closed = False

    @classmethod
    async def open(
        cls,
        opener: ChannelOpener,
        configuration: Mapping[str, str],
        *,
        on_close: Callable[[], None] = lambda: None,
    ) -> ThriftEngineSession:
        """Open the session whose user is the one the opener logs in as."""
        owner = await opener()
        request = messages.OpenSession(
            client_protocol=PROTOCOL, configuration=dict(configuration)
        )
        try:
            reply = await _call(owner, request)
            _check(reply.status)
        except BaseException:
            owner.close()
            raise
        return cls(opener, owner, reply.session, on_close=on_close)

    @property
    def is_closed(self) -> bool:
        return self._channels.is_ended

    async def execute(
        self, statement: str, settings: Mapping[str, str] | None = None
    ) -> EngineOperation:
        reply = await self._ask(self._execution(statement, settings))
        return _begun(reply)

    async def query(
        self, statement: str, settings: Mapping[str, str] | None, max_rows: int
    ) -> tuple[EngineOperation, asyncio.Future[FetchedBatch]]:
        """Send both calls at once; see the port."""
        request = self._execution(statement, settings)
        begun: asyncio.Future[EngineOperation] = (
            asyncio.get_running_loop().create_future()
        )
        first = asyncio.create_task(self._query(request, max_rows, begun))
        first.add_done_callback(partial(_pass_on_failure, begun))
        return await begun, first

    async def _query(
        self,
        request: messages.ExecuteStatement,
        max_rows: int,
        begun: asyncio.Future[EngineOperation],
    ) -> FetchedBatch:
        async with self._channels.one() as channel:
            sequence = channel.next_sequence()
            reply = channel.send(calls.encode_call(request, sequence=sequence))
            reply.add_done_callback(partial(_pass_on_begun, begun, sequence))
            return await _fetched(channel, _LAST, Orientation.NEXT, max_rows)

    def _execution(
        self, statement: str, settings: Mapping[str, str] | None
    ) -> messages.ExecuteStatement:
        return messages.ExecuteStatement(
            session=self._session,
            statement=statement,
            overlay=settings or None,
            run_async=True,
        )

    async def status(self, operation: EngineOperation) -> EngineStatus:
        request = messages.GetOperationStatus(operation=_handle(operation))
        reply = await self._ask(request)
        if reply.state == State.ERROR and not reply.message:
            # The engine sets the state before the reason: a poll can end in between.
            reply = await self._ask(request)
        try:
            state = OperationState[State(reply.state).name]
        except (KeyError, ValueError):
            state = OperationState.UNKNOWN
        return EngineStatus(
            state, reply.sql_state or "", reply.error_code or 0, reply.message or ""
        )

    async def fetch(
        self, operation: EngineOperation, orientation: Orientation, max_rows: int
    ) -> FetchedBatch:
        async with self._channels.one() as channel:
            return await _fetched(channel, operation, orientation, max_rows)

    async def cancel(self, operation: EngineOperation) -> None:
        """Stop a statement over the channel that nothing else uses."""
        request = messages.CancelOperation(operation=_handle(operation))
        await self._tell(request)

    async def close_operation(self, operation: EngineOperation) -> None:
        if self.is_closed:
            return
        with contextlib.suppress(EngineRefused):
            await self._ask(messages.CloseOperation(operation=_handle(operation)))

    def close_idle(self) -> None:
        self._channels.close_idle()

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._channels.end()
        owner = self._channels.owner
        try:
            with contextlib.suppress(EngineUnavailable, EngineRefused):
                request = messages.CloseSession(session=self._session)
                if owner.is_busy:
                    await self._tell(request)
                else:
                    await _call(owner, request)
        finally:
            self._channels.close()
            self._on_close()

    async def _tell(self, request: messages.Request) -> None:
        reply = await _call(await self._channels.control(), request)
        with contextlib.suppress(EngineRefused):
            _check(reply.status)

    async def _ask(self, request: messages.Request) -> Any:
        if isinstance(request, _BRIEF):
            reply = await _call(await self._channels.at_once(), request)
        else:
            async with self._channels.one() as channel:
                reply = await _call(channel, request)
        _check(reply.status)
        return reply


async def _call(channel: EngineChannel, request: messages.Request) -> Any:
    sequence = channel.next_sequence()
    data = await channel.exchange(
        calls.encode_call(request, sequence=sequence),
        is_brief=isinstance(request, _BRIEF),
    )
    with _understood():
        return calls.decode_reply(data, type(request), sequence=sequence)


async def _fetched(
    channel: EngineChannel,
    operation: EngineOperation,
    orientation: Orientation,
    max_rows: int,
) -> FetchedBatch:
    request = messages.FetchResults(
        operation=_handle(operation),
        orientation=_ORIENTATIONS[orientation],
        max_rows=max_rows,
    )
    sequence = channel.next_sequence()
    data = await channel.exchange(calls.encode_call(request, sequence=sequence))
    with _understood():
        reply = rowset.cut_fetch_reply(data, sequence=sequence)
    _check(reply.status)
    with _understood():
        rows = rowset.count_rows(reply.row_set)
    columns = None
    if reply.columns:
        columns = tuple(
            EngineColumn(item.name, item.type_id, item.qualifiers, item.comment or "")
            for item in reply.columns.columns
        )
    row_set = reply.row_set if rows else b""
    return FetchedBatch(row_set, reply.has_more_rows, rows, columns)


def _begun(reply: Any) -> EngineOperation:
    handle: OperationHandle | None = reply.operation
    if handle is None:
        raise EngineRefused("the query engine started nothing")
    return EngineOperation(handle.id.guid, handle.id.secret, handle.has_result_set)


def _pass_on_begun(
    begun: asyncio.Future[EngineOperation],
    sequence: int,
    frame: asyncio.Future[bytes | bytearray],
) -> None:
    """Make the handle of the reply to ExecuteStatement, while its caller waits."""
    if begun.done() or frame.cancelled():
        return
    try:
        with _understood():
            reply: Any = calls.decode_reply(
                frame.result(), messages.ExecuteStatement, sequence=sequence
            )
        _check(reply.status)
        begun.set_result(_begun(reply))
    except SluiceError as error:
        begun.set_exception(error)


def _pass_on_failure(
    begun: asyncio.Future[EngineOperation], first: asyncio.Future[FetchedBatch]
) -> None:
    """Of the handle, while there is none; the batch may be waited for by nobody."""
    if first.cancelled():
        begun.cancel()
    elif (error := first.exception()) and not begun.done():
        begun.set_exception(error)


@contextlib.contextmanager
def _understood() -> Any:
    try:
        yield
    except (ProtocolError, MessageError) as error:
        raise EngineUnavailable(
            "the query engine sent an invalid reply: %(reply)s", reply=error.message
        ) from error
    except RemoteFault as error:
        raise EngineRefused(error.message) from error


def _handle(operation: EngineOperation) -> OperationHandle:
    handle = Handle(guid=operation.guid, secret=operation.secret)
    return OperationHandle(id=handle, type=0, has_result_set=operation.has_result_set)


def _check(status: Status) -> None:
    if status.code not in _FINE:
        raise EngineRefused(
            status.message or "\n".join(status.info or ()),
            sql_state=status.sql_state or "",
            error_code=status.error_code or 0,
        )
