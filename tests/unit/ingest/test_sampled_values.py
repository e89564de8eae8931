"""A value of a sample has one form, whether a file or a statement gave it."""

from __future__ import annotations

import datetime as dt
import decimal

import pytest

from ingest.pipelines.samples import plain
from ingest.pipelines.sampling import as_sampled

AT = dt.datetime.fromisoformat("2024-03-01 12:00:00")


@pytest.mark.parametrize(
    ("kind", "of_a_file", "of_a_statement"),
    [
        (
            "timestamp_ntz",
            AT.replace(microsecond=120_000),
            "2024-03-01 12:00:00.12",
        ),
        (
            "timestamp",
            dt.datetime(2024, 3, 1, 12, tzinfo=dt.UTC),
            "2024-03-01 12:00:00",
        ),
        ("timestamp", dt.datetime(1, 1, 1, tzinfo=dt.UTC), "0001-01-01 00:00:00"),
        ("date", dt.date(2024, 3, 1), "2024-03-01"),
        ("binary", b"\x00\xffab", "00ff6162"),
        ("binary", b"", ""),
        ("bigint", 2**60, str(2**60)),
        ("bigint", 7, 7),
        ("boolean", True, True),
        ("decimal(12,2)", decimal.Decimal("1.20"), "1.20"),
        ("double", float("nan"), "NaN"),
        ("double", float("-inf"), "-Infinity"),
        ("string", "2024-03-01 12:00:00", "2024-03-01 12:00:00"),
        ("string", "x" * 3000, "x" * 3000),
        ("string", None, None),
        ("array<string>", ["a", None, 'b,"c'], r'["a",null,"b,\"c"]'),
        ("array<int>", [1, 2], "[1,2]"),
        ("array<bigint>", [2**60], f"[{2**60}]"),
        ("array<double>", [0.5, float("nan")], "[0.5,NaN]"),
        ("array<decimal(20,1)>", [decimal.Decimal("2.0")], "[2.0]"),
        ("array<decimal(20,0)>", [decimal.Decimal(2)], "[2]"),
        ("array<timestamp_ntz>", [AT], '["2024-03-01 12:00:00"]'),
    ],
)
def test_both_ways_give_the_same(kind, of_a_file, of_a_statement) -> None:
    assert as_sampled(of_a_statement, kind) == plain(of_a_file)


@pytest.mark.parametrize(
    ("kind", "value"),
    [("timestamp", "+12024-01-01 00:00:00"), ("array<int>", "[1,"), ("binary", "zz")],
)
def test_what_cannot_be_read_stays_as_it_came(kind, value) -> None:
    assert as_sampled(value, kind) == value
