"""What a column gave to the rows that were there as it was added, in Spark's hands."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from ingest.contract.table import ColumnSpec
from ingest.driver.apply.log_fold import older_value
from ingest.driver.apply.rows import literal


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine has another time zone than UTC."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    ("source", "lake", "older"),
    [
        ("date", "date", "0001-01-01"),
        ("timestamp without time zone", "timestamp_ntz", "0001-01-01 00:00:00"),
        ("timestamp without time zone", "timestamp_ntz", "1500-03-01 01:02:03.4"),
        ("timestamp without time zone", "timestamp_ntz", "2024-07-01 10:00:00"),
        ("timestamp with time zone", "timestamp", "1000-01-01 00:00:00"),
        ("date[]", "array<date>", "[0001-01-01, null, 2024-02-29]"),
        ("bigint[]", "array<bigint>", "[]"),
    ],
)
def test_they_are_those_of_the_source(
    spark: Any, source: str, lake: str, older: str
) -> None:
    text = f"{older}+00" if lake == "timestamp" else older
    said = text.translate({ord("["): "{", ord("]"): "}"}).replace(", null, ", ",NULL,")
    column = ColumnSpec("c", "c", source, lake, older=said)
    value = literal(older_value(column).as_py(), lake)
    found = spark.range(1).select(value.alias("c"))
    assert found.schema["c"].dataType.simpleString() == lake
    assert found.selectExpr("CAST(c AS string)").first()[0] == older
