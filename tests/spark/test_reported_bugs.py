"""Bugs that users of other products reported, tried over the port with PyHive and the
Thrift messages below it, on a gateway with a real engine. Each test has the number of
its report. Others of the same list:

impyla #549  tests/integration/gateway/test_pyhive.py: a disconnect ends its statement
metabase #51843  the same file: a session opens in no database that is not there
kyuubi #4480, #4847  tests/integration/gateway/test_engine_death.py, test_stopping.py
dbt-spark #228  tests/spark/test_engine_clients.py: dbt finds the relations of a schema
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from pyhive import hive
from pyhive.exc import OperationalError
from TCLIService import ttypes

from tests.integration.gateway.conftest import PASSWORD
from tests.integration.gateway.running import RunningGateway
from tests.integration.gateway.test_pyhive import connect
from tests.spark.engine_bench import EngineBench
from tests.spark.warm_gateway import WarmEngine
from tests.waiting import wait_for

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.filterwarnings(
        "ignore:.*socket.*:pytest.PytestUnraisableExceptionWarning"
    ),
]
USER = "bugs"
NEXT = ttypes.TFetchOrientation.FETCH_NEXT
ENDLESS = "select count(*) from range(1000000) a cross join range(1000000) b"


@pytest.fixture(scope="module")
def gateway(
    bench: EngineBench,
    django_db_setup: None,
    django_db_blocker: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RunningGateway]:
    with django_db_blocker.unblock():
        from django.contrib.auth.models import User

        from catalog.access.grants import grant, revoke

        user = User.objects.create_user(USER, password=PASSWORD)
        given = grant(
            principal=f"user:{USER}",
            privilege="select",
            on="lake.shop",
            by="root",
        )
        home = tmp_path_factory.mktemp("warm")
        running = RunningGateway(home, engine=WarmEngine(bench))
        yield running
        running.close()
        revoke(given.pk, by="root")
        user.delete()


@pytest.fixture
def connection(gateway: RunningGateway) -> Iterator[hive.Connection]:
    made = connect(gateway, USER)
    yield made
    made.close()


def run(connection: hive.Connection, statement: str, size: int = 1000) -> list[Any]:
    with connection.cursor(arraysize=size) as cursor:
        cursor.execute(statement)
        rows: list[Any] = cursor.fetchall()
        return rows


def execute(connection: hive.Connection, statement: str, seconds: int = 0) -> Any:
    request = ttypes.TExecuteStatementReq(
        connection.sessionHandle, statement, runAsync=True, queryTimeout=seconds
    )
    return connection.client.ExecuteStatement(request).operationHandle


def ended(connection: hive.Connection, handle: Any) -> Any:
    """Its status once it is over."""
    request = ttypes.TGetOperationStatusReq(handle)
    states = ttypes.TOperationState
    alive = {states.INITIALIZED_STATE, states.PENDING_STATE, states.RUNNING_STATE}

    def status() -> Any:
        found = connection.client.GetOperationStatus(request)
        return None if found.operationState in alive else found

    return wait_for(status, "the statement to end")


def batch(connection: hive.Connection, handle: Any, rows: int) -> Any:
    request = ttypes.TFetchResultsReq(handle, NEXT, rows)
    return connection.client.FetchResults(request)


@pytest.mark.long
def test_impyla_596_an_empty_batch_is_the_end(connection: hive.Connection) -> None:
    sparse = "select id from range(0, 1000000) where id % 500000 = 499999"
    handle = execute(connection, sparse)
    ended(connection, handle)
    rows: list[int] = []
    while values := batch(connection, handle, 1000).results.columns[0].i64Val.values:
        rows += values
    assert rows == [499_999, 999_999]
    assert not batch(connection, handle, 1000).hasMoreRows


def test_hue_3700_nulls_stay_in_their_places(connection: hive.Connection) -> None:
    """Cut anywhere: tests/unit/gateway/test_hs2_rowset.py."""
    found = run(
        connection,
        "select if(id % 9 = 0, null, id), if(id % 7 = 0, null, cast(id as string))"
        " from range(0, 3000)",
        size=7,
    )
    assert found == [
        (i if i % 9 else None, str(i) if i % 7 else None) for i in range(3000)
    ]


def test_kyuubi_6594_a_large_row_is_refused_and_the_connection_lives(
    connection: hive.Connection,
) -> None:
    with pytest.raises(OperationalError) as refused:
        run(connection, "select repeat('x', 20 * 1024 * 1024)")
    assert refused.value.args[0].status.sqlState == "54000"
    rows = run(connection, "select repeat('x', 50000) from range(30)", size=500)
    assert [len(text) for (text,) in rows] == [50_000] * 30


@pytest.mark.parametrize("zone", ["UTC+8", "+08:00", "GMT+8", "Asia/Shanghai"])
def test_kyuubi_5219_zones_of_one_offset_are_one(
    connection: hive.Connection, zone: str
) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"set spark.sql.session.timeZone={zone}")
        cursor.execute("select cast(timestamp_seconds(0) as string), date'2024-01-01'")
        assert [tuple(map(str, row)) for row in cursor.fetchall()] == [
            ("1970-01-01 08:00:00", "2024-01-01")
        ]


@pytest.mark.parametrize("is_silent", [False, True])
def test_kyuubi_5392_a_time_limit_holds_whatever_the_engine_does(
    connection: hive.Connection, bench: EngineBench, *, is_silent: bool
) -> None:
    run(connection, "select 1")
    if is_silent:
        os.kill(bench.java_pid, signal.SIGSTOP)
    try:
        status = ended(connection, execute(connection, ENDLESS, seconds=1))
    finally:
        os.kill(bench.java_pid, signal.SIGCONT)
    states = ttypes.TOperationState  # clients of older protocols know no time-out
    assert status.operationState in {states.TIMEDOUT_STATE, states.CANCELED_STATE}
    assert status.sqlState == "HYT00", status
    wait_for(lambda: run(connection, "select 1") == [(1,)] or None, "the session")


def test_kyuubi_6843_a_time_limit_leaves_nothing_behind(
    gateway: RunningGateway, connection: hive.Connection
) -> None:
    def tasks() -> int:
        return len(gateway.do(asyncio.all_tasks, gateway._loop))

    def once() -> None:
        handle = execute(connection, "select 1", seconds=3600)
        ended(connection, handle)
        connection.client.CloseOperation(ttypes.TCloseOperationReq(handle))

    once()
    before = tasks()
    for _ in range(30):
        once()
    wait_for(lambda: tasks() <= before + 3 or None, "their timers to end")


def test_dbeaver_4037_a_cancel_while_rows_are_fetched(
    connection: hive.Connection,
) -> None:
    handle = execute(connection, "select * from range(0, 50000000, 1, 500)")
    status = ended(connection, handle)
    first = batch(connection, handle, 1000)
    assert first.results, (status, first.status)
    assert first.results.columns[0].i64Val.values[:3] == [0, 1, 2]
    connection.client.CancelOperation(ttypes.TCancelOperationReq(handle))
    status = batch(connection, handle, 1000).status
    assert status.sqlState == "HY008"
    assert run(connection, "select 1") == [(1,)]


def test_superset_30208_tables_are_listed_once_and_views_as_none(
    connection: hive.Connection,
) -> None:
    listed = [
        row[-1] if len(row) == 1 else row[1]
        for row in run(connection, "show tables in shop")
    ]
    assert sorted(listed) == sorted(set(listed))
    assert {"orders", "customers"} <= set(listed)
    assert run(connection, "show views in shop") == []


def test_kyuubi_7576_a_masked_table_meets_itself_in_a_union(
    bench: EngineBench,
) -> None:
    """And a mask holds for whom a grant on the whole database lets read (#6930)."""
    limits = {"filters": ["id <= 2"], "masks": {"name": ["redact", ""]}}
    bench.policy("mask", select=["shop.*"], tables={"shop.customers": limits})
    client = bench.connect("mask")
    found = client.rows(
        "with v as (select id, name from shop.customers)"
        " select * from v union all select * from v order by id"
    )
    assert found == [(1, "***"), (1, "***"), (2, "***"), (2, "***")]
    client.close()
