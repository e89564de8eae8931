"""Composed attacks on rights: `make fuzz-sql` runs many, with a report."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest

from tests.source_access import postgresql_at
from tests.spark.conftest import Lake
from tests.spark.engine_bench import Client, EngineBench, Outcome
from tests.spark.live_bench import LiveSource
from tests.spark.sql_fuzz import statement_of
from tests.spark.test_rows_and_columns import RULES, make_people

MANY = int(os.environ.get("SLUICE_FUZZ_SQL", "300"))
FIRST = int(os.environ.get("SLUICE_FUZZ_SEED", "1000"))
# In any case: an expression may change it.
MARKS = ("canaryrow", "canarymail", "canaryhidden", "canary_bonus", "lake_canary_root")
CLIENTS, SILENT = 4, 60


LIVE = """
CREATE TABLE people AS SELECT id, 'name' || id AS name,
  CASE WHEN id <= 4 THEN 'eu' ELSE 'us' END AS region,
  'CANARYMAIL' || id || '@x.org' AS email, 'CANARYHIDDEN' || id AS canary_pay,
  'CANARYHIDDEN' || id AS canary_bonus,
  CASE WHEN id <= 4 THEN 'seen' || id ELSE 'CANARYROW' || id END AS note,
  date '1987-06-05' + id AS born FROM generate_series(1, 8) id;
CREATE SCHEMA vault;
CREATE TABLE vault.secrets AS SELECT 1 AS id, 'CANARYROW1' AS note;
"""
COLUMNS = [
    ("id", "integer", "int"),
    *[
        (name, "text", "string")
        for name in ("name", "region", "email", "canary_pay", "canary_bonus", "note")
    ],
    ("born", "date", "date"),
]
LIMITS = RULES | {"fuzz_pg.public.people": RULES["shop.people"]}


@pytest.fixture(scope="module")
def clients(
    spark: Any, lake: Lake, bench: EngineBench, source_pg: Any
) -> Iterator[list[Client]]:
    """Of one who may see some rows and columns of one table in the lake and of one in
    a source, and of nobody."""
    make_people(spark, lake, bench)
    dsn = source_pg.create_database("fuzz")
    with psycopg.connect(dsn, autocommit=True) as link:
        link.execute(LIVE)
    source = LiveSource(bench, "fuzz_pg", postgresql_at(dsn, application="sluice:sql"))
    source.table("public", "people", COLUMNS)
    source.table("vault", "secrets", [COLUMNS[0], ("note", "text", "string")])
    bench.policy("fritz", select=["shop.customers"], tables=LIMITS)
    bench.policy("nemo", select=["shop.customers"])
    opened = [bench.connect("fritz") for _ in range(CLIENTS - 1)]
    opened.append(bench.connect("nemo"))
    yield opened
    for client in opened:
        client.close()


def leak_in(statement: str, outcome: Outcome) -> str:
    shown = outcome.visible_text.replace(statement, "").lower()
    return next((mark for mark in MARKS if mark in shown), "")


def attack(
    bench: EngineBench, clients: list[Client], seeds: Sequence[int]
) -> tuple[dict[int | str, str], Counter[str]]:
    """What leaked, by seed; and how statements ended."""
    leaks: dict[int | str, str] = {}
    ends: Counter[str] = Counter()
    logged = bench.log.stat().st_size

    async def go_on(number: int, client: Client) -> None:
        for seed in seeds[number::CLIENTS]:
            statement = statement_of(seed)
            settings = {"spark.sql.ansi.enabled": "true" if seed % 2 else "false"}
            async with asyncio.timeout(SILENT):
                outcome = await client._run(statement, settings)
            ends[outcome.sql_state or ("error" if outcome.error else "rows")] += 1
            if leak_in(statement, outcome):
                leaks[seed] = f"{statement}: {outcome.visible_text[:500]}"

    async def all_of_them() -> None:
        await asyncio.gather(*(go_on(*each) for each in enumerate(clients)))

    bench.wait(all_of_them())
    log = bench.log.read_bytes()[logged:].decode("utf-8", "replace").lower()
    leaks |= dict.fromkeys((mark for mark in MARKS[:3] if mark in log), "in the log")
    return leaks, ends


def test_some_composed_statements_bring_nothing_to_light(
    bench: EngineBench, clients: list[Client]
) -> None:
    leaks, ends = attack(bench, clients, range(60))
    assert leaks == {}
    assert ends["rows"] > 10, ends


@pytest.mark.long
def test_many_composed_statements_bring_nothing_to_light(
    bench: EngineBench, clients: list[Client]
) -> None:
    began = time.monotonic()
    leaks, ends = attack(bench, clients, range(FIRST, FIRST + MANY))
    rate = MANY / (time.monotonic() - began)
    print(f"{MANY} statements from seed {FIRST}, {rate:.1f} a second: {dict(ends)}")  # noqa: T201
    assert leaks == {}
