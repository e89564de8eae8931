"""An engine ends under statements: which of them notice."""

from __future__ import annotations

import asyncio

import pytest
from pyhive.exc import OperationalError
from TCLIService import ttypes

from gateway.abuse_throttle import MOST_COUNTED_SECONDS
from gateway.faults import RAN_SHORT
from tests.doubles import engine as fake
from tests.doubles.engine import FakeAnswer, answer_to
from tests.integration.gateway.test_pyhive import connect, eventually
from tests.integration.gateway.test_server import limited


def count(gateway, statement):
    return [sql for _, sql in gateway.engine.journal].count(statement)


def ended(cursor):
    """The state that the client polls to see."""
    state = ttypes.TOperationState
    alive = {state.INITIALIZED_STATE, state.PENDING_STATE, state.RUNNING_STATE}
    assert eventually(lambda: cursor.poll().operationState not in alive)
    return cursor.poll()


def slow_once(gateway, statement):
    """The first run of the statement takes a minute, further ones no time."""

    def answer(sql):
        found = answer_to(sql)
        if sql == statement and count(gateway, statement) == 1:
            found.seconds = 60
        return found

    gateway.engine.answers = answer


def test_a_running_statement_runs_again_on_the_next_engine(gateway):
    slow_once(gateway, "SELECT 7")
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 7", async_=True)
        assert eventually(lambda: count(gateway, "SELECT 7") == 1)
        gateway.do(gateway.engine.die)
        ended(cursor)
        assert cursor.fetchall() == [(7,)]
        log = cursor.fetch_logs()
    assert (gateway.engine.starts, count(gateway, "SELECT 7")) == (2, 2)
    assert any("runs again" in line for line in log)


def test_it_runs_again_only_once(gateway):
    gateway.engine.answers = lambda sql: FakeAnswer(seconds=0 if "USE" in sql else 60)
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 7", async_=True)
        for run in (1, 2):
            assert eventually(lambda run=run: count(gateway, "SELECT 7") == run)
            gateway.do(gateway.engine.die)
        assert ended(cursor).sqlState == "08S01"


def test_whose_statements_end_two_engines_has_wasted_them_once(gateway):
    """The second time counts, and once for all that ran there."""
    gateway.engine.answers = lambda sql: FakeAnswer(seconds=0 if "USE" in sql else 60)
    waste = gateway.gateway.services.waste
    with connect(gateway) as connection:
        cursors = [connection.cursor() for _ in range(3)]
        for cursor in cursors:
            cursor.execute("SELECT 7", async_=True)
        assert eventually(lambda: count(gateway, "SELECT 7") == 3)
        gateway.do(gateway.engine.die)
        assert eventually(lambda: count(gateway, "SELECT 7") == 6)
        assert waste.seconds_of("ann") == 0.0
        gateway.do(gateway.engine.die)
        for cursor in cursors:
            assert ended(cursor).sqlState == "08S01"
    assert MOST_COUNTED_SECONDS / 2 < waste.seconds_of("ann") <= MOST_COUNTED_SECONDS


def test_so_has_one_whose_reading_ends_two_engines(users, tmp_path):
    """Without room for its first rows, which are computed when they are fetched."""
    with limited(tmp_path, read_ahead_bytes=0) as gateway:
        reading_ends_two_engines(gateway)


def reading_ends_two_engines(gateway):
    gateway.engine.answers = lambda sql: FakeAnswer(
        rows=[("7",)], fetch_seconds=0 if "USE" in sql else 3600
    )
    waste = gateway.gateway.services.waste
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 7")
        ask = ttypes.TFetchResultsReq(cursor._operationHandle, 0, 100)
        connection.client.send_FetchResults(ask)
        for run in (1, 2):
            assert eventually(lambda run=run: gateway.engine.starts == run)
            assert eventually(
                lambda: any(one.fetching for one in [*gateway.engine.sessions])
            )
            assert waste.seconds_of("ann") == 0.0
            gateway.do(gateway.engine.die)
        assert connection.client.recv_FetchResults().status.sqlState == "08S01"
    assert MOST_COUNTED_SECONDS / 2 < waste.seconds_of("ann") <= MOST_COUNTED_SECONDS


def test_a_result_of_which_no_row_was_read_is_made_again(gateway):
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT * FROM range(3)")
        gateway.do(gateway.engine.die)
        assert cursor.fetchall() == [(0,), (1,), (2,)]
    assert count(gateway, "SELECT * FROM range(3)") == 2


def test_other_columns_than_the_client_knows_are_no_result_of_its_statement(gateway):
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 7")
        assert cursor.description[0][0] == "7"
        gateway.engine.answers = lambda sql: answer_to("SELECT 8")
        gateway.do(gateway.engine.die)
        with pytest.raises(OperationalError, match="columns have changed") as raised:
            cursor.fetchall()
    assert raised.value.args[0].status.sqlState == "08S01"


def test_a_second_run_has_the_time_that_its_statement_has_left(gateway, monkeypatch):
    monkeypatch.setattr(fake, "LONG_POLL_SECONDS", 0.05)
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 7")
        gateway.engine.answers = lambda sql: FakeAnswer(
            seconds=0 if "USE" in sql else 60
        )
        for session in gateway.gateway.services.sessions:
            for operation in session.operations.values():
                operation.started -= 3600
        gateway.do(gateway.engine.die)
        with pytest.raises(OperationalError, match="no time left") as raised:
            cursor.fetchall()
    assert raised.value.args[0].status.sqlState == "HYT00"
    services = gateway.gateway.services
    assert services.waste.seconds_of("ann") > 0  # as of a first run


def test_whose_second_run_ends_the_next_engine_too_is_counted(gateway):
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 7")

        def dies(sql):
            if "7" in sql:
                asyncio.get_running_loop().call_soon(gateway.engine.die)
            return FakeAnswer(seconds=60 if "7" in sql else 0)

        gateway.engine.answers = dies
        gateway.do(gateway.engine.die)
        with pytest.raises(OperationalError):
            cursor.fetchall()
    waste = gateway.gateway.services.waste
    assert waste.seconds_of("ann") > MOST_COUNTED_SECONDS - 1


def test_statements_that_wait_get_the_next_engine(gateway):
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        gateway.engine.faults.start_seconds = 1.0
        gateway.do(gateway.engine.die)
        cursor.execute("SELECT 2")
        assert cursor.fetchall() == [(2,)]
    assert gateway.engine.starts == 2


def test_the_log_tells_the_stage_as_hive_does(gateway):
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert "INFO  : Stage-1 map = 100%,  reduce = 0%" in cursor.fetch_logs()


def test_the_log_tells_what_a_statement_waits_for(gateway):
    line = "INFO  : waits to be planned"
    gateway.engine.answers = lambda sql: FakeAnswer(seconds=60, waits=line)
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1", async_=True)
        assert eventually(lambda: line in cursor.fetch_logs())
        cursor.cancel()


def short_once(gateway, statement, *, code, times=1):
    """The engine's memory ends under the first runs of the statement."""

    def answer(sql):
        if sql == statement and count(gateway, statement) <= times:
            return FakeAnswer(error="too large", sql_state="54000", error_code=code)
        return answer_to(sql)

    gateway.engine.answers = answer


def test_a_statement_under_which_memory_ended_runs_again_on_the_same_engine(gateway):
    short_once(gateway, "SELECT 7", code=RAN_SHORT)
    with connect(gateway) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 7")
        assert cursor.fetchall() == [(7,)]
    assert (gateway.engine.starts, count(gateway, "SELECT 7")) == (1, 2)


@pytest.mark.parametrize(("code", "runs"), [(RAN_SHORT, 2), (0, 1)])
def test_one_that_was_ended_or_ran_short_twice_fails(gateway, code, runs):
    short_once(gateway, "SELECT 7", code=code, times=2)
    with (
        connect(gateway) as connection,
        connection.cursor() as cursor,
        pytest.raises(OperationalError, match="too large"),
    ):
        cursor.execute("SELECT 7")
    assert count(gateway, "SELECT 7") == runs
