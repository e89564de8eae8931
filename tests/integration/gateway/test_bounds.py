"""How much one address, one connection and one session may have."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack

import pytest
from pyhive.exc import OperationalError
from TCLIService import ttypes

from tests.doubles.engine import FakeSession
from tests.integration.gateway.test_crowds import ACCEPTED, knock
from tests.integration.gateway.test_pyhive import connect, eventually
from tests.integration.gateway.test_server import limited, read_all

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*socket.*:pytest.PytestUnraisableExceptionWarning"
)


def test_an_address_has_so_many_connections(users, tmp_path):
    with limited(tmp_path, connections_per_address=1) as gateway:
        held = knock(gateway, "ann")
        assert held.recv(5)
        assert b"too many connections" in read_all(knock(gateway, "bob"))
        elsewhere = knock(gateway, "bob", address="127.0.0.2")
        assert elsewhere.recv(5) == b"\x05\0\0\0\0"
        elsewhere.close()
        held.close()


def test_whoever_fills_the_places_before_the_login_keeps_nobody_out(users, tmp_path):
    with limited(tmp_path, connections_before_login=6) as gateway:
        crowd = [
            socket.create_connection(
                ("127.0.0.1", gateway.port), 30, source_address=(address, 0)
            )
            for address in ("127.0.0.2", "127.0.0.3")
            for _ in range(40)
        ]
        guests = [knock(gateway, "ann", address=f"127.0.0.{n}") for n in range(4, 8)]
        assert [guest.recv(5) for guest in guests] == [ACCEPTED] * 4
        assert gateway.gateway.server.connections.unauthenticated.total <= 6
        for raw in (*crowd, *guests):
            raw.close()


def test_a_user_has_so_many_sessions_and_a_session_so_many_operations(users, tmp_path):
    limits = {"sessions_per_user": 1, "operations_per_session": 1}
    bounded = limited(tmp_path, **limits, max_statement=20)
    with bounded as gateway, connect(gateway) as connection:
        reply = connection.client.OpenSession(ttypes.TOpenSessionReq())
        assert "you have 1 open sessions" in reply.status.errorMessage
        assert reply.status.sqlState == "53400"
        first, second = connection.cursor(), connection.cursor()
        with pytest.raises(OperationalError, match="has 21 characters") as raised:
            first.execute("SELECT 7" + " " * 13)
        assert raised.value.args[0].status.sqlState == "54001"
        first.execute("SELECT 7")
        with pytest.raises(OperationalError, match="1 open operations"):
            second.execute("SELECT 7")
        first.close()


def test_a_user_has_so_many_open_statements_in_all_his_sessions(users, tmp_path):
    bounded = limited(tmp_path, operations_per_user=2)
    with bounded as gateway, connect(gateway) as ann, connect(gateway, "bob") as bob:
        held = gateway.gateway.services.statements
        with connect(gateway) as again:
            ann.cursor().execute("SELECT 7")
            again.cursor().execute("SELECT 7")
            with pytest.raises(OperationalError, match="sessions have 2 open oper"):
                ann.cursor().execute("SELECT 7")
            bob.cursor().execute("SELECT 7")
        ann.cursor().execute("SELECT 7")
        assert held == {"ann": 2, "bob": 1}
    assert eventually(lambda: not held)
    assert not gateway.gateway.services.texts.held


def test_what_nobody_touches_for_long_is_freed(gateway):
    limits = gateway.gateway.services.limits

    def after(seconds):
        held = gateway.gateway.services.sessions
        gateway.call(held.end_idle(time.monotonic() + seconds))
        return list(held)

    connection = connect(gateway)
    connection.cursor().execute("SELECT 7")
    assert len(after(limits.operation_idle_seconds - 60)[0].operations) > 0
    assert len(after(limits.operation_idle_seconds + 1)[0].operations) == 0
    assert after(limits.session_idle_seconds + 1) == []
    with pytest.raises(OperationalError, match="Invalid SessionHandle"):
        connection.cursor().execute("SELECT 7")
    connection._transport.close()


def test_each_sweep_lets_go_of_idle_channels_to_the_engine(gateway, monkeypatch):
    swept = set()
    monkeypatch.setattr(FakeSession, "close_idle", lambda self: swept.add(self))
    with connect(gateway) as ann:
        ann.cursor().execute("SELECT 7")
        gateway.call(gateway.gateway.services.sessions.end_idle(time.monotonic()))
        assert swept == gateway.engine.sessions != set()


def test_one_user_warms_one_session_a_while(gateway, monkeypatch):
    """Opening and closing sessions costs the engine no more than that."""
    monkeypatch.setattr("gateway.services.WARM_SECONDS", 3600)
    with ExitStack() as stack:
        stack.enter_context(connect(gateway)).cursor().execute("SELECT 7")
        gateway.gateway.services.warmed.clear()
        held = [stack.enter_context(connect(gateway)) for _ in range(4)]
        stack.enter_context(connect(gateway, "bob"))
        assert eventually(lambda: len(gateway.engine.sessions) == 3)
        held[-1].cursor().execute("SELECT 7")
        assert len(gateway.engine.sessions) == 4


def test_a_fetch_has_so_many_rows_and_all_of_them_come(users, tmp_path):
    with limited(tmp_path, max_fetch_rows=10) as gateway, connect(gateway) as ann:
        cursor = ann.cursor()
        cursor.execute("SELECT * FROM range(25)")
        request = ttypes.TFetchResultsReq(cursor._operationHandle, 0, 1_000_000)
        first = ann.client.FetchResults(request).results.columns[0].i64Val.values
        assert len(first) == 10
        assert len(first) + len(cursor.fetchall()) == 25


def test_an_engine_has_so_many_sessions(users, tmp_path):
    bounded = limited(tmp_path, engine_sessions=1, warm_sessions=0)
    with bounded as gateway, connect(gateway) as ann, connect(gateway, "bob") as bob:
        ann.cursor().execute("SELECT 7")
        with pytest.raises(OperationalError, match="serves 1 sessions already"):
            bob.cursor().execute("SELECT 7")


def test_one_user_leaves_sessions_of_an_engine_to_others(users, tmp_path):
    bounded = limited(tmp_path, engine_sessions_per_user=1, warm_sessions=0)
    with bounded as gateway, connect(gateway) as ann, connect(gateway, "bob") as bob:
        with connect(gateway) as again:
            ann.cursor().execute("SELECT 7")
            with pytest.raises(OperationalError, match="serves 1 sessions of yours"):
                again.cursor().execute("SELECT 7")
        bob.cursor().execute("SELECT 7")
