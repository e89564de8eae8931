"""Cancel and time-outs end a statement at any moment, also while its rows are made."""

from __future__ import annotations

import asyncio

import pytest
from pyhive.exc import OperationalError
from TCLIService import ttypes

from gateway.engines.port import EngineColumn
from gateway.hs2.values import TypeId
from tests.doubles.engine import FakeAnswer
from tests.integration.gateway.test_pyhive import connect, eventually
from tests.integration.gateway.test_server import limited

STATE = ttypes.TOperationState
ID = EngineColumn("id", TypeId.BIGINT)


def computed_by_fetching(sql):
    """The engine says FINISHED at once, and computes each batch when it is asked."""
    return FakeAnswer([ID], [(1,)], fetch_seconds=0 if "USE" in sql else 3600)


def later_rows(gateway):
    """From the next batch on, what is read takes an hour."""
    for session in gateway.engine.sessions:
        for statement in session._statements.values():
            statement.answer.fetch_seconds = 3600


def is_gone(gateway):
    """The engine works on nothing and keeps nothing."""
    return all(
        not one.fetching and not one._statements for one in gateway.engine.sessions
    )


@pytest.mark.parametrize("how", ["cancel", "limit"])
def test_a_statement_runs_until_its_first_rows_are_there(gateway, how):
    gateway.engine.answers = computed_by_fetching
    with connect(gateway) as connection, connection.cursor() as cursor:
        handle = started(connection, 0 if how == "cancel" else 1)
        assert eventually(
            lambda: any(one.fetching for one in [*gateway.engine.sessions])
        )
        if how == "cancel":
            assert state_of(connection, handle).operationState == STATE.RUNNING_STATE
            connection.client.CancelOperation(ttypes.TCancelOperationReq(handle))
        assert eventually(
            lambda: state_of(connection, handle).operationState == STATE.CANCELED_STATE
        )
        wanted = "HY008" if how == "cancel" else "HYT00"
        assert state_of(connection, handle).sqlState == wanted
        assert eventually(lambda: is_gone(gateway))
        gateway.engine.answers = lambda sql: FakeAnswer([ID], [(7,)])
        cursor.execute("SELECT 7")
        assert cursor.fetchall() == [(7,)]


def started(connection, seconds):
    request = ttypes.TExecuteStatementReq(
        connection.sessionHandle, "slow", {}, True, seconds
    )
    return connection.client.ExecuteStatement(request).operationHandle


def state_of(connection, handle):
    return connection.client.GetOperationStatus(ttypes.TGetOperationStatusReq(handle))


@pytest.mark.parametrize("how", ["cancel", "limit"])
def test_rows_that_are_made_later_are_stopped_too(users, tmp_path, how):
    """The fetch that waits for them ends, as does the engine's work."""
    with limited(tmp_path) as gateway:
        gateway.engine.answers = lambda sql: FakeAnswer(
            [ID], [(n,) for n in range(200)]
        )
        with connect(gateway) as connection:
            handle = started(connection, 0 if how == "cancel" else 1)
            assert eventually(
                lambda: (
                    state_of(connection, handle).operationState == STATE.FINISHED_STATE
                )
            )
            gateway.do(later_rows, gateway)
            fetch = ttypes.TFetchResultsReq(handle, 0, 100)
            assert connection.client.FetchResults(fetch).status.statusCode == 0
            connection.client.send_FetchResults(fetch)
            assert eventually(
                lambda: any(one.fetching for one in [*gateway.engine.sessions])
            )
            if how == "cancel":
                gateway.call(cancelled(gateway))
            status = connection.client.recv_FetchResults().status
            assert status.sqlState == ("HY008" if how == "cancel" else "HYT00")
            assert eventually(lambda: is_gone(gateway))


async def cancelled(gateway):
    """As a cancel that comes over another thread of the client's."""
    for session in gateway.gateway.services.sessions:
        for operation in session.operations.values():
            await session.cancel(operation)


def test_a_cancel_waits_for_no_engine(gateway):
    """One that does not answer keeps nobody from going on."""
    gateway.engine.answers = computed_by_fetching
    with connect(gateway) as connection:
        handle = started(connection, 0)
        assert eventually(
            lambda: any(one.fetching for one in [*gateway.engine.sessions])
        )
        (session,) = gateway.engine.sessions
        told = []

        async def never(operation):
            told.append(operation)
            await asyncio.Event().wait()

        session.cancel = session.close_operation = never
        reply = connection.client.CancelOperation(ttypes.TCancelOperationReq(handle))
        assert reply.status.statusCode == 0
        assert eventually(lambda: told)


def test_a_cancel_of_what_was_read_to_its_end_changes_nothing(gateway):
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 7")
        cursor.cancel()
        assert cursor.poll().operationState == STATE.FINISHED_STATE
        assert cursor.fetchall() == [(7,)]


def test_an_error_among_the_first_rows_is_the_statements(gateway):
    def refused(sql):
        found = FakeAnswer([ID], [(1,)])
        if sql == "bad":
            found.rows = [("no number",)]
        return found

    gateway.engine.answers = refused
    with connect(gateway) as connection, connection.cursor() as cursor:
        with pytest.raises(OperationalError):
            cursor.execute("bad")
        cursor.execute("good")
        assert cursor.fetchall() == [(1,)]
