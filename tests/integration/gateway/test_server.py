"""The door itself: half-open sockets, strangers, floods, a database that is away."""

from __future__ import annotations

import contextlib
import socket
import struct

import pytest
from pyhive.exc import OperationalError
from TCLIService import ttypes
from thrift.Thrift import TApplicationException

from gateway.hs2 import framing
from gateway.limits import GatewayLimits
from gateway.statement_run import stage_line
from tests.integration.gateway.conftest import PASSWORD
from tests.integration.gateway.test_pyhive import connect, eventually

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*socket.*:pytest.PytestUnraisableExceptionWarning"
)


@contextlib.contextmanager
def limited(home, **limits):
    from tests.integration.gateway.running import RunningGateway

    running = RunningGateway(home, GatewayLimits(**limits))
    yield running
    running.close()


@pytest.fixture
def strict(users, tmp_path):
    limits = {"connections": 4, "connections_per_user": 2}
    with limited(tmp_path, login_seconds=60, **limits) as running:
        yield running


def knock(gateway, data=b""):
    raw = socket.create_connection(("127.0.0.1", gateway.port), timeout=30)
    raw.sendall(data)
    return raw


def read_all(raw):
    data = b""
    try:
        while part := raw.recv(4096):
            data += part
    except ConnectionResetError:
        pass
    raw.close()
    return data


def test_a_socket_that_never_logs_in_is_closed(users, tmp_path):
    with limited(tmp_path, login_seconds=0.3) as gateway:
        assert b"too long" in read_all(knock(gateway))


def test_a_http_client_is_told_and_closed(strict):
    assert b"SASL" in read_all(knock(strict, b"GET / HTTP/1.1\r\n\r\n"))


def test_calls_before_the_login_are_not_served(strict):
    call = struct.pack("!I", 0x80010001) + b"\0\0\0\x0bOpenSession"
    answer = read_all(knock(strict, call))
    assert b"OpenSession" not in answer
    assert strict.engine.journal == []


def test_connections_beyond_the_limits_are_turned_away(strict):
    with connect(strict) as one, connect(strict) as two:
        with pytest.raises(Exception, match="too many connections"):
            connect(strict)
        one.cursor().execute("SELECT 1")
        two.cursor().execute("SELECT 1")
    assert eventually(lambda: not strict.gateway.server.connections.per_user)
    held = [knock(strict) for _ in range(4)]
    assert eventually(
        lambda: strict.gateway.server.connections.unauthenticated.total == 4
    )
    last = knock(strict)
    assert b"too many connections" in read_all(held.pop(0))
    for raw in (*held, last):
        raw.close()


def test_a_slow_typist_is_served_byte_by_byte(gateway):
    raw = knock(gateway)
    for byte in framing.client_opening("ann", PASSWORD):
        raw.sendall(bytes([byte]))
    assert raw.recv(5) == b"\x05\0\0\0\0"
    raw.close()


def test_old_clients_ask_for_logs_and_learn_that_the_method_is_unknown(gateway):
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        request = ttypes.TGetLogReq(cursor._operationHandle)
        with pytest.raises(TApplicationException) as raised:
            connection.client.GetLog(request)
        assert raised.value.type == TApplicationException.UNKNOWN_METHOD
        assert cursor.fetch_logs() == [stage_line(1, 1)]
        assert cursor.fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("offered", "agreed"), [(5, 5), (7, 7), (9, 9), (10, 9), (42241, 9)]
)
def test_the_protocol_version_is_the_smaller_one(gateway, offered, agreed):
    with connect(gateway) as connection:
        request = ttypes.TOpenSessionReq(client_protocol=offered)
        assert connection.client.OpenSession(request).serverProtocolVersion == agreed


def test_a_client_before_v6_is_refused_with_a_reason(gateway):
    with connect(gateway) as connection:
        reply = connection.client.OpenSession(ttypes.TOpenSessionReq(client_protocol=4))
        assert reply.status.statusCode == 3
        assert "too old" in reply.status.errorMessage


def test_every_kind_of_info_is_answered(gateway_connection):
    client, session = gateway_connection
    for kind in [*ttypes.TGetInfoType._VALUES_TO_NAMES, 77777]:
        request = ttypes.TGetInfoReq(sessionHandle=session, infoType=kind)
        reply = client.GetInfo(request)
        assert reply.status.statusCode == 0
        values = [v for v in vars(reply.infoValue).values() if v is not None]
        assert len(values) == 1, kind


@pytest.fixture
def gateway_connection(gateway):
    with connect(gateway) as connection:
        yield connection.client, connection._sessionHandle


def test_delegation_tokens_are_refused_as_hive_does(gateway_connection):
    client, session = gateway_connection
    request = ttypes.TGetDelegationTokenReq(session, "ann", "ann")
    status = client.GetDelegationToken(request).status
    assert "not supported" in status.errorMessage


def test_closing_twice_is_fine(gateway_connection):
    client, session = gateway_connection
    reply = client.ExecuteStatement(ttypes.TExecuteStatementReq(session, "SELECT 1"))
    close = ttypes.TCloseOperationReq(reply.operationHandle)
    assert [client.CloseOperation(close).status.statusCode for _ in range(2)] == [0, 0]


def test_a_time_limit_shows_as_cancelled_to_old_clients(gateway):
    from tests.doubles.engine import FakeAnswer

    gateway.engine.answers = lambda sql: FakeAnswer(seconds=60)
    with connect(gateway) as connection:
        client = connection.client
        for version, shown in ((5, 3), (9, 8)):
            session = client.OpenSession(
                ttypes.TOpenSessionReq(client_protocol=version)
            ).sessionHandle
            handle = client.ExecuteStatement(
                ttypes.TExecuteStatementReq(
                    session, "slow", runAsync=True, queryTimeout=1
                )
            ).operationHandle
            ask = ttypes.TGetOperationStatusReq(handle)
            assert eventually(
                lambda ask=ask: client.GetOperationStatus(ask).sqlState == "HYT00"
            )
            assert client.GetOperationStatus(ask).operationState == shown


def test_the_bar_of_progress_has_each_column_that_beeline_draws(gateway):
    """With two of the nine each slow statement was MissingFormatArgumentException."""
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1", async_=True)
        asked = ttypes.TGetOperationStatusReq(
            cursor._operationHandle, getProgressUpdate=True
        )
        bar = connection.client.GetOperationStatus(asked).progressUpdateResponse
        assert len(bar.headerNames) == 9
        assert [len(row) for row in bar.rows] == [9]


def test_while_the_database_is_away_fetches_go_on_and_statements_fail(gateway):
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.arraysize = 100
        cursor.execute("SELECT * FROM range(1000)")
        first = cursor.fetchmany(100)

        kinds = gateway.gateway.store.kinds
        for kind in kinds:
            kind.breaker.blocked_until = float("inf")
        assert len(first) + len(cursor.fetchall()) == 1000
        with pytest.raises(OperationalError) as raised:
            connection.cursor().execute("SELECT 1")
        assert raised.value.args[0].status.sqlState == "08S01"
        with pytest.raises(Exception, match="08S01"):
            connect(gateway)
        for kind in kinds:
            kind.breaker.blocked_until = 0.0
        cursor.execute("SELECT 1")
        assert cursor.fetchall() == [(1,)]


def test_forty_connections_are_held_and_let_go(gateway):
    held = [knock(gateway, framing.client_opening("ann", PASSWORD)) for _ in range(40)]
    assert all(raw.recv(5) == b"\x05\0\0\0\0" for raw in held)
    assert len(gateway.gateway.server.connections) == 40
    for raw in held:
        raw.close()
    assert eventually(lambda: not gateway.gateway.server.connections)
    # the loop's thread counts one after the other
    assert eventually(lambda: not gateway.gateway.server.connections.per_address)
