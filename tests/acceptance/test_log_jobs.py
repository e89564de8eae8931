"""A table that follows PostgreSQL's log while its source is written to all the time:
jobs take it from the driver's session and give it back, and nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.processes import family, kill, wait_until_gone
from tests.product import LOOK_SECONDS, Product
from tests.waiting import wait_for

pytestmark = [pytest.mark.timeout(1500), pytest.mark.long(together="jobs beside a log")]

NAME = "lake.busy.t"
ROWS = 500
CREATE = f"""
CREATE TABLE t (id int PRIMARY KEY, v int);
INSERT INTO t SELECT g, 0 FROM generate_series(1, {ROWS}) g;
"""
# Of what each beat touches, half is deleted by the next one.
BEAT = """
UPDATE t SET v = %(beat)s WHERE id %% 50 = %(beat)s %% 50;
DELETE FROM t WHERE id > 1000 AND v < %(beat)s - 1;
INSERT INTO t VALUES (1000 + %(beat)s, %(beat)s);
"""
BEAT_SECONDS = 0.1


class Writer(threading.Thread):
    """Writes until it is told to stop."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]]) -> None:
        super().__init__(daemon=True)
        self._connect = connect
        self._stopping = threading.Event()
        self.beat = 0

    def run(self) -> None:
        with self._connect() as source:
            while not self._stopping.wait(BEAT_SECONDS):
                self.beat += 1
                for statement in BEAT.strip().split(";")[:-1]:
                    source.execute(statement, {"beat": self.beat})

    def stop(self) -> None:
        self._stopping.set()
        self.join()


@pytest.fixture(scope="module")
def writer(product: Product) -> Iterator[Writer]:
    with product.source() as admin:
        admin.execute("CREATE DATABASE busy")
    with product.source("busy") as source:
        source.execute(CREATE)
        source.execute("ANALYZE")
    product.register("busy")
    product.discover("busy")
    writer = Writer(lambda: product.source("busy"))
    writer.start()
    body = {"datasource": "busy", "include": ["public.t"], "capture": "log"}
    product.api.post(
        "/onboardings", {**body, "approve": True, "target_database": "busy"}
    )
    product.api.wait_live(NAME)
    yield writer
    writer.stop()


def rows_of(product: Product) -> tuple[Any, Any]:
    """Of the source, and of the lake."""
    sql = "SELECT id, v FROM {} ORDER BY id"
    with product.source("busy") as source:
        ours = [tuple(row) for row in source.execute(sql.format("t")).fetchall()]
    with product.hive() as connection, connection.cursor() as cursor:
        cursor.execute(sql.format("busy.t"))
        return ours, [tuple(row) for row in cursor.fetchall()]


def goes_on(product: Product, writer: Writer) -> None:
    """What is written from now on comes to the lake."""
    wanted = writer.beat + 1

    def newest() -> bool:
        with product.hive() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT max(v) FROM busy.t")
            return bool(cursor.fetchall()[0][0] >= wanted)

    wait_for(newest, f"beat {wanted} in the lake", pause=LOOK_SECONDS)


def do(product: Product, verb: str, body: Any = None) -> Any:
    """verb: below the table, `:compact` or `/savepoints`."""
    table = product.api.table(NAME)["id"]
    job = product.api.wait_job(product.api.post(f"/tables/{table}{verb}", body)["id"])
    assert job["state"] == "SUCCEEDED", job
    return job


def test_jobs_take_the_table_and_give_it_back(product: Product, writer: Writer) -> None:
    goes_on(product, writer)
    assert do(product, ":verify")["facts"]["verdict"] == "equal"
    do(product, ":clean")
    goes_on(product, writer)
    saved = do(product, "/savepoints")["facts"]["savepoint"]
    goes_on(product, writer)
    do(product, ":compact")
    goes_on(product, writer)
    do(product, ":restore", {"instant": saved})
    goes_on(product, writer)
    do(product, ":resync")
    goes_on(product, writer)
    product.api.wait_live(NAME)
    assert do(product, ":verify")["facts"]["verdict"] == "equal"


def test_a_killed_driver_loses_nothing(product: Product, writer: Writer) -> None:
    driver = wait_for(
        lambda: family(product.reload()["pids"]["driver"]), "a driver to kill"
    )
    kill(driver)
    wait_until_gone(driver)
    goes_on(product, writer)


def test_a_paused_table_goes_on_where_it_was(product: Product, writer: Writer) -> None:
    table = product.api.table(NAME)["id"]
    product.api.post(f"/tables/{table}:pause")
    before = writer.beat
    wait_for(lambda: writer.beat > before + 5, "more beats")
    product.api.post(f"/tables/{table}:resume")
    goes_on(product, writer)


def test_at_last_the_lake_is_as_the_source(product: Product, writer: Writer) -> None:
    writer.stop()

    def are_equal() -> bool:
        ours, theirs = rows_of(product)
        return bool(ours == theirs)

    wait_for(are_equal, "the lake to be as the source", pause=LOOK_SECONDS)
    facts = do(product, ":verify")["facts"]
    assert (facts["verdict"], facts["pending"]) == ("equal", 0)
