"""A client that leaves its result for longer than the lake keeps files: what the engine
has spooled is read to its end, by PyHive, on a gateway with a real engine."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyhive import hive
from pyhive.exc import OperationalError

from gateway.operation import Operation
from tests.integration.gateway.conftest import PASSWORD
from tests.integration.gateway.running import RunningGateway
from tests.integration.gateway.test_pyhive import connect
from tests.spark.conftest import Lake
from tests.spark.engine_bench import EngineBench, write_table
from tests.spark.test_large_results import HASHES
from tests.spark.warm_gateway import WarmEngine
from tests.waiting import wait_for

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.filterwarnings(
        "ignore:.*socket.*:pytest.PytestUnraisableExceptionWarning"
    ),
]
USER, TABLE = "stay", "shop.left"
ROWS = 30_000
STALL = 40 * 60.0


@pytest.fixture
def gateway(
    bench: EngineBench, transactional_db: None, tmp_path: Path
) -> Iterator[RunningGateway]:
    from django.contrib.auth.models import User

    from catalog.access.grants import grant

    User.objects.create_user(USER, password=PASSWORD)
    on = {"privilege": "select", "on": "lake.shop", "by": "root"}
    grant(principal=f"user:{USER}", **on)
    running = RunningGateway(tmp_path, engine=WarmEngine(bench))
    yield running
    running.close()


@pytest.fixture
def cursor(gateway: RunningGateway) -> Iterator[hive.Cursor]:
    connection = connect(gateway, USER)
    with connection.cursor(arraysize=500) as made:
        yield made
    connection.close()


def stall(gateway: RunningGateway) -> None:
    """As if the client had asked for nothing, all that time."""
    operation = operation_of(gateway)

    async def sweep() -> None:
        operation.started -= STALL
        await gateway.gateway.services.sessions.end_idle(time.monotonic() + STALL)

    gateway.call(sweep())


def operation_of(gateway: RunningGateway) -> Operation:
    (session,) = gateway.gateway.services.sessions
    (operation,) = session.operations.values()
    return operation


def is_whole(gateway: RunningGateway) -> bool:
    run = operation_of(gateway).run
    assert run
    assert run.handle
    return bool(gateway.call(run.engine.status(run.handle)).is_whole)


def test_what_the_engine_has_outlives_the_lakes_files(
    spark: Any, lake: Lake, bench: EngineBench, gateway: RunningGateway, cursor: Any
) -> None:
    place = lake.root / "shop" / "left"
    hashes = "select id, sha2(cast(id as string), 512) as v, 1L as _sluice_seq,"
    write_table(
        spark, place, f"{hashes} false as _sluice_deleted from range(0, {ROWS}, 1, 4)"
    )
    bench.table(TABLE, place)
    cursor.execute(f"select id, v from {TABLE} order by id")
    # who reads on leaves the rest to the engine's disk
    read = [row for _ in range(3) for row in cursor.fetchmany(500)]
    wait_for(lambda: is_whole(gateway), "the engine to have all rows")
    assert bench.spooled
    for file in place.glob("*.parquet"):
        file.unlink()
    stall(gateway)
    read += cursor.fetchall()
    assert read == [(n, hashlib.sha512(b"%d" % n).hexdigest()) for n in range(ROWS)]
    cursor.close()
    wait_for(lambda: not bench.spooled, "its files to go")


def test_what_the_engine_had_no_room_for_ends_in_words(
    bench: EngineBench, gateway: RunningGateway, cursor: Any
) -> None:
    cursor.execute(HASHES.format(rows=200_000, parts=20))
    assert len([row for _ in range(3) for row in cursor.fetchmany(500)]) == 1500
    stall(gateway)
    with pytest.raises(OperationalError, match="within 1800 s"):
        cursor.fetchall()
    cursor.close()
    wait_for(lambda: not bench.spooled, "its files to go")
    cursor.execute("select 1")
    assert cursor.fetchall() == [(1,)]
