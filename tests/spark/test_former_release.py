"""A lake of the release before this one: it is read, and its pipelines go on.

The services run as they do in the product, over the restored database; their jobs run
in the session of the tests.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from tests.former.restored import (
    Former,
    point_to_source,
    restore_source,
    restored_database,
    unpack,
)
from tests.former.story import LAG_SECONDS, PLANNED, TABLES
from tests.integration.catalog.asking import Rest
from tests.waiting import wait_for


@dataclass
class Upgraded:
    """The product of today over what the former one left."""

    former: Former
    source: psycopg.Connection[Any]
    spark: Any
    host: Any
    ticking: Any

    @property
    def rest(self) -> Rest:
        return self.former.rest("admin")

    def get(self, path: str) -> Any:
        reply = self.rest("GET", path)
        assert reply.status_code == 200, (path, reply.json())
        return reply.json()

    def then(self, path: str) -> Any:
        """What the administrator was answered then."""
        status, body = self.former.answers["admin"][f"/{path}"]
        assert status == 200
        return body

    def table(self, name: str) -> dict[str, Any]:
        items = self.then("tables?page_size=200")["items"]
        return next(t for t in items if t["qualified_name"] == f"lake.shop.{name}")

    def run(self, name: str, verb: str, body: Any = None) -> Any:
        """The job of that table, once it has succeeded."""
        return self.wait(self.post(name, verb, body)["id"])

    def post(self, name: str, verb: str, body: Any = None) -> Any:
        path = f"tables/{self.table(name)['id']}{verb}"
        reply = self.rest("POST", path, {} if body is None else body)
        assert reply.status_code == 202, (path, reply.json())
        return reply.json()

    def wait(self, job_id: str) -> Any:
        def ended() -> Any:
            self.step()
            job = self.get(f"jobs/{job_id}")
            return job if job["state"] in {"SUCCEEDED", "FAILED", "CANCELLED"} else None

        job = wait_for(ended, f"job {job_id}", pause=0)
        assert job["state"] == "SUCCEEDED", job
        return job

    def step(self) -> None:
        self.host.step()
        self.ticking.tick()

    def new_commits(self, name: str) -> list[tuple[str, int]]:
        """Position from which each sync since then went on, and its rows. As the lake
        gets older, policies compact it, too."""
        path = f"tables/{self.table(name)['id']}/commits"
        known = {commit["instant"] for commit in self.then(path)["items"]}
        return [
            (commit["from"], commit["rows"])
            for commit in self.get(path)["items"]
            if commit["instant"] not in known and commit["action"] == "deltacommit"
        ]

    def rows(self, name: str) -> list[list[Any]]:
        columns = self.former.facts["rows"][name]["columns"]
        frame = self.spark.read.format("hudi").load(self.former.path(name))
        found = [list(row) for row in frame.selectExpr(*columns).collect()]
        return sorted(found, key=repr)


@pytest.fixture(scope="module")
def product(
    spark: Any,
    source_pg: Any,
    metadata_pg: Any,
    django_db_blocker: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Upgraded]:
    from ingest.driver_host.host import DriverHost
    from ingest.scheduler.tick import Ticking
    from tests.former.session_launcher import SessionLauncher

    former = unpack(tmp_path_factory.mktemp("former"))
    source = restore_source(former, source_pg)
    with django_db_blocker.unblock(), restored_database(former, metadata_pg):
        point_to_source(source_pg)
        host = DriverHost(SessionLauncher(spark))
        yield Upgraded(former, source, spark, host, Ticking())
        host.stop()
    source.close()


@pytest.mark.parametrize("name", TABLES)
def test_every_row_is_read(product: Upgraded, name: str) -> None:
    assert product.rows(name) == product.former.facts["rows"][name]["rows"]


def test_a_job_that_was_under_way_ends_now(product: Upgraded) -> None:
    """Its spec is of then."""
    assert product.wait(product.former.facts["interrupted"])["kind"] == "verify"


def test_a_plan_of_then_is_approved_and_executed(product: Upgraded) -> None:
    found = product.then("onboardings")["items"]
    (planned,) = [one for one in found if not one["approved_at"]]
    reply = product.rest("POST", f"onboardings/{planned['id']}:approve", {})
    assert reply.status_code == 202, reply.json()

    def loaded() -> bool:
        product.step()
        (table,) = product.get(f"onboardings/{planned['id']}")["tables"]
        return bool(table["status"] == "LIVE")

    wait_for(loaded, f"{PLANNED} to be LIVE", pause=0)
    frame = product.spark.read.format("hudi").load(product.former.path(PLANNED))
    assert sorted(tuple(row) for row in frame.select("id", "body").collect()) == [
        (number, f"note {number}") for number in range(1, 11)
    ]


def test_pipelines_go_on_at_their_positions(product: Upgraded) -> None:
    """What changed since arrives, once: a sync reads no row that was there before."""
    changed = "updated_at = clock_timestamp()"
    product.source.execute(f"UPDATE orders SET note = 'after', {changed} WHERE id < 4")
    product.source.execute("INSERT INTO orders (id, note) VALUES (62, 'new')")
    product.source.execute(f"UPDATE stock SET remark = NULL, {changed} WHERE id < 3")
    product.source.execute(f"UPDATE invoices SET total = 7, {changed} WHERE id = 9")
    time.sleep(LAG_SECONDS)
    before = {name: product.rows(name) for name in ("orders", "stock", "invoices")}
    (resumed,) = product.post("invoices", ":resume")["jobs"]
    syncs = [product.post(name, ":sync")["id"] for name in ("orders", "stock")]
    for job in (resumed["id"], *syncs):
        product.wait(job)
    for name, rows in (("orders", 4), ("stock", 2), ("invoices", 1)):
        assert product.new_commits(name) == [
            (product.table(name)["last_commit"]["position"], rows)
        ]
        now = product.rows(name)
        assert len(now) == len(before[name]) + (name == "orders"), name
        assert len([row for row in now if row not in before[name]]) == rows, name


def test_a_planned_compaction_is_executed(product: Upgraded) -> None:
    table = product.table("orders")["id"]
    (pending,) = product.then(f"tables/{table}/health")["pending"]
    before = product.rows("orders")
    job = product.run("orders", ":compact")
    assert job["facts"]["instants"] == [pending["instant"]]
    assert product.rows("orders") == before


def test_verifications_find_both_sides_equal(product: Upgraded) -> None:
    names = ("orders", "clicks", "countries")
    jobs = [product.post(name, ":verify")["id"] for name in names]
    verdicts = [product.wait(job)["facts"]["verdict"] for job in jobs]
    assert dict(zip(names, verdicts, strict=True)) == dict.fromkeys(names, "equal")


def test_a_schema_change_that_waited_is_approved(product: Upgraded) -> None:
    product.source.execute(
        "UPDATE customers SET city = 'Rom', updated_at = clock_timestamp() WHERE id = 1"
    )
    time.sleep(LAG_SECONDS)
    product.run("customers", ":approve-schema-change")
    frame = product.spark.read.format("hudi").load(product.former.path("customers"))
    rows = frame.where("city is not null").select("id", "city").collect()
    assert [tuple(row) for row in rows] == [(1, "Rom")]
    assert frame.count() == len(product.former.facts["rows"]["customers"]["rows"])


def test_a_table_goes_back_to_a_savepoint_of_then(product: Upgraded) -> None:
    table = product.table("stock")["id"]
    (kept,) = product.then(f"tables/{table}/savepoints")["items"]
    product.run("stock", ":restore", {"instant": kept["instant"]})
    product.run("stock", ":sync")
    assert product.run("stock", ":verify")["facts"]["verdict"] == "equal"
