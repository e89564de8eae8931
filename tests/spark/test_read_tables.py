"""Which tables and columns a statement reads, as its engine tells the gateway."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gateway.engines.port import OperationState
from tests.spark.engine_bench import Client, EngineBench

ORDERS, CUSTOMERS = "shop.orders", "shop.customers"


@pytest.fixture(scope="module")
def rae(bench: EngineBench) -> Iterator[Client]:
    """Sees some columns and rows of one table, and all of another."""
    limits = {
        "columns": ["id", "item", "amount"],
        "filters": ["amount > 0"],
        "masks": {"item": ["redact", ""]},
    }
    bench.policy("rae", select=[CUSTOMERS], tables={ORDERS: limits})
    client = bench.connect("rae")
    yield client
    client.close()


def reads(client: Client, statement: str) -> Any:
    session, bench = client.session, client._bench
    operation = bench.wait(session.execute(statement))
    status = bench.wait(session.status(operation))
    while not status.state.is_terminal:
        status = bench.wait(session.status(operation))
    assert status.state is OperationState.FINISHED, status.message
    bench.wait(session.close_operation(operation))
    return bench.tell("reads", statement=operation.guid.hex())["reads"]


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("select 1", {}),
        ("select count(*) from shop.orders", {ORDERS: []}),
        ("select ID from lake.shop.Orders where item > ''", {ORDERS: ["id", "item"]}),
        (
            "select o.id from shop.orders o join shop.customers c on c.id = o.id",
            {ORDERS: ["id"], CUSTOMERS: ["id"]},
        ),
        (
            "select 1 from shop.orders o where exists"
            " (select 1 from shop.customers c where c.name = o.item)",
            {ORDERS: ["item"], CUSTOMERS: ["name"]},
        ),
        (
            "with c as (select id, item from shop.orders) select count(*) from c",
            {ORDERS: ["id", "item"]},
        ),
        (
            "select name from (select name from shop.customers union all"
            " select item from shop.orders)",
            {ORDERS: ["item"], CUSTOMERS: ["name"]},
        ),
        (
            "select a.id from shop.orders a, shop.orders b where b.amount > 1",
            {ORDERS: ["amount", "id"]},
        ),
        ("show tables in shop", None),
        ("describe shop.orders", None),
        ("explain select id from shop.orders", None),
    ],
)
def test_what_is_read(rae: Client, statement: str, found: Any) -> None:
    assert reads(rae, statement) == found
