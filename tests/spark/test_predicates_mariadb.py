"""Random conditions over a live source mean there what they mean in Spark, whatever the
source's collation: the same condition over the same rows written into the query."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.source_access import mariadb_at, postgresql_at
from tests.spark.engine_bench import Client, EngineBench
from tests.spark.live_bench import LiveSource

MANY = int(os.environ.get("SLUICE_PREDICATES", "100"))
TEXTS = ["abc", "ABC", "Abc", "abc ", "abc  ", "äbc", "aebc", "a", "A", "", " ", "ß"]
TEXTS += ["ss", "SS", "b", "B", "a_c", "a%c", "z", "é", "e"]
NAMED = {
    "ci": "utf8mb4_general_ci",
    "uni": "utf8mb4_unicode_ci",
    "bin": "utf8mb4_bin",
    "swe": "utf8mb4_swedish_ci",
    "nopad": "utf8mb4_nopad_bin",
}
COLUMNS = [(name, "varchar(20)", "string") for name in NAMED]


def rows() -> list[tuple[Any, ...]]:
    chance = random.Random(7)
    found: list[tuple[Any, ...]] = []
    for number in range(40):
        texts = [chance.choice([*TEXTS, None]) for _ in NAMED]
        day = f"2024-01-{chance.randint(1, 9):02}"
        found.append((number, chance.choice([None, *range(-3, 4)]), day, *texts))
    return found


def quoted(value: Any) -> str:
    return "null" if value is None else f"'{value}'"


def predicate(chance: random.Random, depth: int = 0) -> str:
    if depth < 3 and chance.random() < 0.45:
        one, other = predicate(chance, depth + 1), predicate(chance, depth + 1)
        return chance.choice(
            (f"({one} and {other})", f"({one} or {other})", f"not ({one})")
        )
    column, text = chance.choice(list(NAMED)), chance.choice(TEXTS)
    second = chance.choice(list(NAMED))
    number = chance.randint(-3, 3)
    several = ", ".join(quoted(t) for t in chance.sample(TEXTS, 3))
    sign = chance.choice(("=", "<>", "<", "<=", ">", ">=", "<=>"))
    return chance.choice(
        (
            f"{column} {sign} '{text}'",
            f"{column} {sign} '{text}'",
            f"{column} in ({several})",
            f"{column} not in ({several})",
            f"{column} between '{text}' and 'b'",
            f"{column} like '{text}%'",
            f"{column} is null",
            f"{column} = {second}",
            f"n {sign} {number}",
            f"n in ({number}, {number + 2}, null)",
            f"day {sign} date'2024-01-0{chance.randint(1, 9)}'",
            f"length({column}) > {abs(number)}",
        )
    )


QUERIES = (
    "select id from {t} where {p} order by id",
    "select id from {t} where {p} order by id",
    "select count(*), min(n), max(day) from {t} where {p}",
    "select {c}, count(*) from {t} where {p} group by {c} order by 1, 2",
    "select min({c}), max({c}), count(distinct {c}) from {t} where {p}",
    "select count(*) from (select id from {t} where {p} limit 3)",
)


@pytest.fixture(scope="module", params=["mariadb", "postgresql"])
def live(
    request: pytest.FixtureRequest, bench: EngineBench, mariadb_server: Any
) -> Iterator[str]:
    """The name of the rows' table at a source of each kind."""
    values = ", ".join(f"({', '.join(map(quoted, row))})" for row in rows())
    numbers = [("id", "int", "int"), ("n", "int", "int"), ("day", "date", "date")]
    if request.param == "mariadb":
        mariadb_server.create_database("collated")
        texts = ", ".join(
            f"{n} varchar(20) CHARACTER SET utf8mb4 COLLATE {c}"
            for n, c in NAMED.items()
        )
        mariadb_server.run(
            f"CREATE TABLE t (id int PRIMARY KEY, n int, day date, {texts})",
            f"INSERT INTO t VALUES {values}",
            database="collated",
        )
        source = LiveSource(bench, "coll_my", mariadb_at(mariadb_server))
        source.table("collated", "t", [*numbers, *COLUMNS])
        yield "coll_my.collated.t"
        mariadb_server.drop_database("collated")
        return
    dsn = request.getfixturevalue("source_pg").create_database("collated")
    texts = ", ".join(
        f'{n} text COLLATE "{c}"' for n, c in zip(NAMED, "CCCCC", strict=True)
    )
    with psycopg.connect(dsn, autocommit=True) as link:
        link.execute(f"CREATE TABLE t (id int PRIMARY KEY, n int, day date, {texts})")
        link.execute(f"INSERT INTO t VALUES {values}")
    source = LiveSource(bench, "coll_pg", postgresql_at(dsn))
    integers = [
        ("id", "integer", "int"),
        ("n", "integer", "int"),
        ("day", "date", "date"),
    ]
    source.table("public", "t", [*integers, *((n, "text", "string") for n in NAMED)])
    yield "coll_pg.public.t"


@pytest.fixture
def reader(bench: EngineBench) -> Iterator[Client]:
    bench.policy("cole", sources=["coll_my", "coll_pg"])
    client = bench.connect("cole")
    yield client
    client.close()


def copy() -> str:
    values = ", ".join(
        f"({row[0]}, {'null' if row[1] is None else row[1]}, date'{row[2]}',"
        f" {', '.join(map(quoted, row[3:]))})"
        for row in rows()
    )
    return f"(values {values}) as t(id, n, day, {', '.join(NAMED)})"


@pytest.mark.parametrize(
    "seeds",
    [range(12), pytest.param(range(100, 100 + MANY), marks=pytest.mark.long)],
    ids=["some", "many"],
)
def test_conditions_mean_the_same(live: str, reader: Client, seeds: range) -> None:
    same_rows, differ = copy(), []
    for seed in seeds:
        chance = random.Random(seed)
        query = chance.choice(QUERIES).replace("{p}", predicate(chance))
        query = query.replace("{c}", chance.choice(list(NAMED)))
        found = reader.run(query.replace("{t}", live))
        wanted = reader.run(query.replace("{t}", same_rows))
        assert not wanted.is_refused, (query, wanted.error)
        if found.rows != wanted.rows or found.is_refused:
            differ.append((seed, query, found.error[:300], found.rows, wanted.rows))
    assert not differ, f"{len(differ)}: {differ[:3]}"
