"""A table as of a time: the rows of then, or a refusal; never the rows of now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.spark.conftest import Lake
from tests.spark.engine_bench import Client, EngineBench, write_table

NOT_SUPPORTED, ABSENT_TABLE = "0A000", "42P01"
LONG_AGO = "'2020-01-01'"
WORDS = [
    "timestamp as of {}",
    "timestamp\n\tas  of {}",
    "for timestamp as of {}",
    "for system_time as of {}",
    "timestamp /* x */ as of {}",
    "timestamp as /* timestamp */ of {}",
    "timestamp -- x\n as of {}",
    "for timestamp /**/ as of {}",
    "for system_time /**/ as of {}",
    "for system_time as /* system_time as */ of {}",
    "version as of {}",
    "version /**/ as of {}",
    "for version /**/ as of {}",
    "for system_version -- x\n as of {}",
]
PLACES = [
    "select id from {}",
    "select id from lake.{}",
    "select id from (select * from {}) t",
    "with t as (select * from {}) select id from t",
    "select id from range(9) where id in (select id from {})",
    "select n from (select (select count(id) from {}) as n) where n > 0",
    "select 1 from range(1) where exists (select * from {})",
    "select o.id from shop.changed n join {} o on o.id = n.id",
    "select id from {} union all select id from {}",
]


def _older(place: str, words: str, when: str = LONG_AGO) -> str:
    return place.replace("{}", f"shop.changed {words.format(when)}")


@pytest.fixture(scope="module")
def reader(spark: Any, lake: Lake, bench: EngineBench) -> Iterator[Client]:
    """Somebody who may read a table of two commits."""
    place = lake.root / "shop" / "changed"
    first = "select 1L as id, 'old' as v, 1L as _sluice_seq, false as _sluice_deleted"
    write_table(spark, place, first)
    second = "select 1L as id, 'new' as v, 2L as _sluice_seq, false as _sluice_deleted"
    write_table(spark, place, second, operation="upsert")
    bench.table("shop.changed", place)
    bench.policy("tim", select=["shop.changed"])
    client = bench.connect("tim")
    yield client
    client.close()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("words", WORDS)
def test_before_its_first_row_a_table_has_none_or_is_refused(
    reader: Client, words: str, place: str
) -> None:
    outcome = reader.run(_older(place, words))
    assert outcome.rows == []
    if outcome.is_refused:
        assert outcome.sql_state == NOT_SUPPORTED
        assert "TIMESTAMP AS OF" in outcome.error
        assert "spark_catalog" not in outcome.error


def test_the_rows_are_those_of_then(reader: Client, lake: Lake) -> None:
    log = lake.root / "shop" / "changed" / ".hoodie" / "timeline"
    first = min(path.name for path in log.glob("[0-9]*"))[:17]
    for words in ("timestamp as of '{}'", "timestamp\nas of '{}'"):
        older = _older("select v from {}", words, first)
        assert reader.rows(older) == [("old",)]
    assert reader.rows("select v from shop.changed") == [("new",)]


def test_a_hidden_table_has_no_older_state_either(reader: Client) -> None:
    for words in ("timestamp /**/ as of '2099-01-01'", "version /**/ as of 1"):
        outcome = reader.run(f"select * from vault.secrets {words}")
        assert outcome.sql_state == ABSENT_TABLE
