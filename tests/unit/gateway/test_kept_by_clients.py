"""What a gateway keeps for clients that begin and do not end, or never close."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from catalog.access.principal_policy import ReadTables
from core.errors import InvalidRequest
from gateway.budget import Budget
from gateway.hs2.connection import CallReceived
from gateway.hs2.messages import StatusReply
from gateway.hs2.values import SERVER_VERSION, OperationType
from gateway.limits import GatewayLimits
from gateway.operation import LocalRows, Operation, Run
from gateway.peer import SENT_AHEAD_BYTES, _set_up
from gateway.server import ClientProtocol, GatewayServer
from gateway.services import Services
from gateway.session import Session

KEPT, ROWS = 3, 10


def session() -> Session:
    limits = GatewayLimits(operations_per_session=KEPT, answered_rows_per_session=ROWS)
    services = Services(cast(Any, None), cast(Any, None), limits)
    return Session(services, "ann", protocol=SERVER_VERSION)


def shares(budget: Budget[str, Any]) -> dict[str, int]:
    of_each = {user: budget.share(user) for user in ("ann", "bob", "cy", "eve")}
    return {user: size for user, size in of_each.items() if size}


def answer(rows: int) -> Operation:
    made = Operation(OperationType.GET_COLUMNS)
    made.local = LocalRows((), [()] * rows)
    made.finish()
    return made


def kept_after(sizes: list[int]) -> list[int]:
    async def ask() -> list[int]:
        held = session()
        for size in sizes:
            await held.make_room()
            held.add(answer(size))
        return [len(o.local.rows) for o in held.operations.values() if o.local]

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        ([1, 2, 3], [1, 2, 3]),
        ([1, 2, 3, 4], [2, 3, 4]),
        ([11, 1], [1]),
        ([6, 4, 1], [6, 4, 1]),
        ([1, 9, 9, 1], [9, 1]),
    ],
)
def test_the_oldest_answers_to_metadata_calls_go_first(sizes, kept):
    assert kept_after(sizes) == kept


async def test_the_oldest_answers_of_a_user_go_whatever_session_they_are_of():
    limits = GatewayLimits(answered_rows_per_user=10)
    services = Services(cast(Any, None), cast(Any, None), limits)
    first, second, other = (
        Session(services, user, protocol=SERVER_VERSION)
        for user in ("ann", "ann", "bob")
    )
    for held, size in (
        (first, 4),
        (other, 9),
        (second, 5),
        (first, 3),
        (second, 1),
    ):
        made = answer(size)
        held.add(made)
        await held.keep(made)
    assert [len(one.operations) for one in (first, second, other)] == [1, 2, 1]
    grown = next(iter(second.operations.values()))
    assert grown.local
    grown.local.rows += [()] * 20
    await second.keep(grown)
    assert shares(services.metadata_results.rows) == {"ann": 25, "bob": 9}
    await first.close()
    await second.close()
    assert shares(services.metadata_results.rows) == {"bob": 9}


async def test_the_rows_of_all_users_are_bounded_and_the_greediest_loses_his_oldest():
    limits = GatewayLimits(answered_rows_per_user=10, answered_rows=20)
    services = Services(cast(Any, None), cast(Any, None), limits)
    ann, bob, eve = (
        Session(services, user, protocol=SERVER_VERSION)
        for user in ("ann", "bob", "eve")
    )
    for held, size in ((ann, 4), (bob, 3), (ann, 5), (bob, 5), (eve, 6), (eve, 4)):
        made = answer(size)
        held.add(made)
        await held.keep(made)
    assert shares(services.metadata_results.rows) == {"ann": 5, "bob": 8, "eve": 4}
    assert [len(one.operations) for one in (ann, bob, eve)] == [1, 2, 1]


async def test_what_results_were_read_from_takes_bounded_room():
    reads = ReadTables(3, {"shop.orders": frozenset({"id", "pay"})})
    limits = GatewayLimits(
        read_list_bytes_per_user=2 * reads.size, read_list_bytes=3 * reads.size
    )
    services = Services(cast(Any, None), cast(Any, None), limits)
    kept = []
    for user in ("ann", "ann", "ann", "bob", "cy"):
        made = Operation(OperationType.EXECUTE_STATEMENT)
        made.runs = [Run(cast(Any, None), cast(Any, None), 0, reads=reads)]
        services.keep_reads(user, made)
        services.keep_reads(user, made)
        kept.append(made)
    is_known = [made.run and made.run.reads == reads for made in kept]
    assert is_known == [True, True, False, True, False]
    assert kept[2].run
    assert kept[2].run.reads == ReadTables(3, {}, is_whole=False)
    for made in kept:
        services.reads.let_go(made)
    assert not services.reads.held


async def test_statements_are_not_closed_for_a_metadata_call():
    held = session()
    for _ in range(KEPT):
        held.add(Operation(OperationType.EXECUTE_STATEMENT, "select 1"))
    with pytest.raises(InvalidRequest, match="3 open operations"):
        await held.make_room()


def test_bytes_of_a_connection_that_went_during_a_call_are_not_held():
    async def leave_amid_a_call() -> int:
        services = SimpleNamespace(limits=GatewayLimits())
        server = GatewayServer(cast(Any, services))
        client = ClientProtocol(server.connections, server.services)
        client.connection_made(cast(Any, Transport()))
        client._worker = asyncio.create_task(client._serve())
        client._connection.state = "OPEN"
        client.data_received(b"\x00\x00\x10\x00" + b"x" * 100)
        assert server.connections.unfinished.total == 104
        worker = client._worker
        client.connection_lost(None)
        await asyncio.wait([worker])
        client._watch_unfinished()  # as the call's end does
        return server.connections.unfinished.total

    assert asyncio.run(leave_amid_a_call()) == 0


def test_long_statements_of_one_user_leave_room_for_those_of_others():
    limits = GatewayLimits(statement_texts=10, statement_texts_per_user=6)
    services = Services(cast(Any, None), cast(Any, None), limits)
    release = services.hold_text("ann", 6)
    with pytest.raises(InvalidRequest, match="your statements"):
        services.hold_text("ann", 1)
    services.hold_text("bob", 4)
    with pytest.raises(InvalidRequest, match="the statements"):
        services.hold_text("eve", 1)
    release()
    services.hold_text("ann", 6)
    assert shares(services.texts) == {"ann": 6, "bob": 4}


@dataclass(eq=False)
class Side:
    is_held: bool


def test_sessions_in_the_engine_are_counted_per_user():
    services = Services(cast(Any, None), cast(Any, None), GatewayLimits())
    held, ended, asking = Side(True), Side(False), Side(True)
    for one in (held, ended):
        services.count_in_engine("ann", one)
    assert services.count_in_engine("ann", asking) == 1
    assert services.count_in_engine("bob", Side(True)) == 0
    del held
    assert services.count_in_engine("ann", asking) == 0


@pytest.mark.parametrize("is_hung_up_on", [True, False])
async def test_a_client_that_does_not_read_loses_its_connection(is_hung_up_on):
    services = SimpleNamespace(limits=GatewayLimits(unread_seconds=0))
    server = GatewayServer(cast(Any, services))
    client = ClientProtocol(server.connections, server.services)
    socket = Transport()
    client.connection_made(cast(Any, socket))
    if is_hung_up_on:
        await client.end("he was disabled")
    else:
        client.pause_writing()
    await socket.aborted.wait()


def test_a_client_that_reads_in_time_keeps_its_connection():
    server = GatewayServer(cast(Any, SimpleNamespace(limits=GatewayLimits())))
    client = ClientProtocol(server.connections, server.services)

    async def read_late() -> bool:
        client.connection_made(cast(Any, Transport()))
        client.pause_writing()
        client.resume_writing()
        return client._unread._timer is not None

    assert not asyncio.run(read_late())


def lazy_clients(server: GatewayServer, left: dict[str, int]) -> dict[str, Transport]:
    """Connections whose peers read nothing, by name; the user is its first letter."""
    sockets = {}
    for name, size in left.items():
        client = ClientProtocol(server.connections, server.services)
        sockets[name] = Transport(size)
        client.connection_made(cast(Any, sockets[name]))
        client.become(name[0])
        client.pause_writing()
    return sockets


def test_he_who_leaves_most_unread_loses_his_largest():
    async def read_nothing() -> tuple[list[str], int]:
        limits = GatewayLimits(unread_bytes=100)
        server = GatewayServer(cast(Any, SimpleNamespace(limits=limits)))
        left = {"a1": 20, "a2": 25, "b": 40, "c": 30, "d": 5}
        sockets = lazy_clients(server, left)
        return [
            n for n, s in sockets.items() if s.aborted.is_set()
        ], server.connections.unread.total

    assert asyncio.run(read_nothing()) == (["a2"], 95)


def test_a_client_that_left_a_reply_gets_no_other_made():
    async def read_late() -> list[str]:
        limits = GatewayLimits()
        server = GatewayServer(cast(Any, SimpleNamespace(limits=limits)))
        client, asked = ClientProtocol(server.connections, server.services), []
        client.connection_made(cast(Any, Transport(limits.write_high_water)))

        async def handle(request: str) -> StatusReply:
            asked.append(request)
            return StatusReply()

        call = CallReceived("FetchResults", 1, cast(Any, "fetch"))
        client.pause_writing()
        serving = asyncio.create_task(
            client._call(call, cast(Any, SimpleNamespace(handle=handle)))
        )
        await asyncio.sleep(0)
        assert asked == []
        assert server.connections.unread.total == limits.write_high_water
        client.resume_writing()
        await serving
        assert server.connections.unread.total == 0
        return asked

    assert asyncio.run(read_late()) == ["fetch"]


class Transport:
    """A socket that takes everything, and of which nobody reads."""

    def __init__(self, unread: int = 0) -> None:
        self.aborted = asyncio.Event()
        self._unread = unread

    def get_write_buffer_size(self) -> int:
        return self._unread

    def abort(self) -> None:
        self.aborted.set()

    def get_extra_info(self, name: str) -> object:
        return ("192.0.2.1", 4711) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None: ...

    def writelines(self, buffers: object) -> None: ...

    def is_closing(self) -> bool:
        return False

    def close(self) -> None: ...


def test_the_kernel_keeps_little_of_what_a_client_does_not_read() -> None:
    """4 MiB of each connection, which no limit of ours counted."""
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        told = {"socket": ours}
        _set_up(cast(Any, SimpleNamespace(get_extra_info=told.get)))
        kept = ours.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    assert kept == 2 * SENT_AHEAD_BYTES
