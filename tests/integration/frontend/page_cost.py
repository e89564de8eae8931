"""What a page costs, in what no busy machine changes: statements sent, blocks of tables
and indexes that the database reads for them, and bytes of the answer."""

from __future__ import annotations

import json
from dataclasses import dataclass

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

# A few for each of thousands of rows are little. One statement that reads a table for
# each of its rows touches millions.
FEW_BLOCKS = 100_000


@dataclass(frozen=True, slots=True)
class PageCost:
    statements: int
    blocks: int
    size: int


def settle_statistics() -> None:
    """Have the planner know what this transaction wrote. Autovacuum sees none of it,
    counts tables empty, and must wait from now on: ANALYZE keeps its lock to the end."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def cost_of(client: Client, path: str) -> PageCost:
    """Ask for a page once, and run its queries once more to count their blocks."""
    with CaptureQueriesContext(connection) as asked:
        answer = client.get(path)
    assert answer.status_code == 200
    sent = [query["sql"] for query in asked]
    queries = [sql for sql in sent if sql.startswith(("SELECT", "WITH"))]
    return PageCost(len(sent), sum(map(_blocks, queries)), len(answer.content))


def _blocks(sql: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}")
        (told,) = cursor.fetchone()
    plan = (json.loads(told) if isinstance(told, str) else told)[0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
