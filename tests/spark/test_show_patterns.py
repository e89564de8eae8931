"""A pattern of SHOW … LIKE picks what it picks in Spark, in linear time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.spark.engine_bench import Client, EngineBench


@pytest.fixture
def client(bench: EngineBench) -> Iterator[Client]:
    bench.policy("eve", select=["shop.orders"])
    opened = bench.connect("eve")
    yield opened
    opened.close()


@pytest.mark.parametrize("what", ["functions", "tables in shop"])
def test_patterns_of_show_are_matched_in_linear_time(client: Client, what: str) -> None:
    assert client.rows(f"show {what} like '{'.*a' * 100}b'") == []
    assert (
        "at most 512 characters" in client.run(f"show {what} like '{'a' * 513}'").error
    )
    assert "counted" in client.run(f"show {what} like '((a{{99}}){{99}}){{99}}'").error


def test_patterns_of_show_mean_what_they_meant(client: Client) -> None:
    found = client.rows("show functions like 'ABS|[ac]sc|*_sec*'")
    assert found == [("abs",), ("csc",), ("timestamp_seconds",), ("unix_seconds",)]
    assert client.rows("show functions like 'abs('") == []
    assert client.rows("show user functions like 'abs'") == []
    assert ("!=",) in client.rows("show functions")
