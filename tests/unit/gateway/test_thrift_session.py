"""What a statement costs a session in its engine: messages and turns."""

from __future__ import annotations

import asyncio
import struct

import pytest

from gateway.engines.channel import EngineChannel
from gateway.engines.port import EngineRefused, EngineUnavailable, Orientation
from gateway.engines.thrift_session import ThriftEngineSession
from gateway.hs2 import calls, framing, messages, values
from gateway.hs2.binary import Reader, encode
from gateway.hs2.rowset import decode_row_set, encode_row_set
from gateway.hs2.values import TypeId, column_desc

OPENING = framing.client_opening("ann", "secret")
BEGUN = values.OperationHandle(id=values.Handle(b"h" * 16, b"s" * 16))
SCHEMA = values.TableSchema((column_desc("n", TypeId.INT, 1),))


def first_batch(numbers: list[int]) -> bytes:
    """Rows with their columns, as `Statement` has them."""
    rows, columns = (
        encode_row_set([TypeId.INT], [(n,) for n in numbers]),
        encode(SCHEMA),
    )
    end = struct.pack("!bhi", 11, 4, len(columns)) + columns + b"\0"
    return struct.pack("!bhq", 10, 1, -len(columns)) + rows[11:-1] + end


class Engine:
    """Answers a turn's messages only once there are `turn` of them; None hangs up."""

    def __init__(self) -> None:
        self.turn = 1
        self.asked: list[messages.Request] = []
        self.answers: dict[type, object] = {
            messages.OpenSession: messages.OpenSessionReply(
                session=values.SessionHandle()
            ),
            messages.ExecuteStatement: messages.OperationReply(operation=BEGUN),
            messages.FetchResults: messages.FetchResultsReply(results=first_batch([7])),
        }

    async def serve(self, reader, writer):
        await reader.readexactly(len(OPENING))
        writer.write(framing.sasl_frame(framing.COMPLETE))
        try:
            while True:
                received = [await self._next(reader)]
                while len(received) < self.turn:
                    received.append(await self._next(reader))
                for envelope, request in received:
                    answer = self.answers[type(request)]
                    if answer is None:
                        return
                    data = calls.encode_reply(
                        envelope.name, answer, sequence=envelope.sequence
                    )
                    writer.write(struct.pack("!I", len(data)) + data)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _next(self, reader):
        (size,) = struct.unpack("!I", await reader.readexactly(4))
        message = Reader(await reader.readexactly(size))
        envelope = calls.read_envelope(message)
        request = calls.decode_request(envelope, message)
        self.asked.append(request)
        return envelope, request


async def running(scenario):
    engine = Engine()
    server = await asyncio.start_server(engine.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def opener():
        return await EngineChannel.open(
            "127.0.0.1", port, username="ann", secret="secret"
        )

    async with server, asyncio.timeout(20):
        session = await ThriftEngineSession.open(opener, {})
        engine.turn = 2
        engine.asked.clear()
        await scenario(engine, session)
        session._channels.close()


async def test_a_query_takes_two_messages_and_one_turn():
    async def scenario(engine, session):
        handle, first = await session.query("SELECT 7", None, 100)
        batch = await first
        assert (handle.guid, batch.rows) == (b"h" * 16, 1)
        assert decode_row_set(batch.row_set) == [[7]]
        assert [column.name for column in batch.columns] == ["n"]
        execute, fetch = engine.asked
        assert (execute.statement, execute.run_async) == ("SELECT 7", True)
        assert (fetch.operation.id.guid, fetch.max_rows) == (bytes(16), 100)

    await running(scenario)


async def test_the_handle_is_there_before_the_rows():
    async def scenario(engine, session):
        engine.answers[messages.FetchResults] = None
        handle, first = await session.query("SELECT 7", None, 100)
        assert handle.guid == b"h" * 16
        with pytest.raises(EngineUnavailable):
            await first

    await running(scenario)


async def test_a_query_that_does_not_begin_says_why_and_leaves_the_channel_in_order():
    async def scenario(engine, session):
        refused = values.failure("no", sql_state="42501")
        kept = engine.answers[messages.ExecuteStatement]
        engine.answers[messages.ExecuteStatement] = messages.OperationReply(refused)
        with pytest.raises(EngineRefused, match="no") as error:
            await session.query("SELECT 7", None, 100)
        assert error.value.sql_state == "42501"
        engine.answers[messages.ExecuteStatement] = kept
        handle, first = await session.query("SELECT 7", None, 100)
        assert (await first).rows == 1
        engine.turn = 1
        assert (await session.fetch(handle, Orientation.NEXT, 5)).rows == 1

    await running(scenario)


async def test_an_engine_that_is_gone_begins_nothing():
    async def scenario(engine, session):
        engine.answers[messages.ExecuteStatement] = None
        with pytest.raises(EngineUnavailable):
            await session.query("SELECT 7", None, 100)
        with pytest.raises(EngineUnavailable):
            await session.query("SELECT 7", None, 100)

    await running(scenario)
