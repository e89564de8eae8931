"""Positions in logs: their order by examples, and their text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InvalidRequest
from ingest.contract.source_positions import PostgresLog, lsn_of, lsn_text


@pytest.mark.parametrize(
    ("one", "order", "other"),
    [
        # as text 9 is after 1
        ("lsn:7:1:9/0", "before", "lsn:7:1:10/0"),
        ("lsn:7:1:0/FFFFFFFF", "before", "lsn:7:1:1/0"),
        ("lsn:7:1:0/a", "equal", "lsn:7:1:0/A"),
        # another server, and the same one after a promotion
        ("lsn:7:1:0/5000", "unordered", "lsn:8:1:1/0"),
        ("lsn:7:1:0/5000", "unordered", "lsn:7:2:1/0"),
        ("lsn:7:1:0/5000", "unordered", "lsn:7:2:0/5000"),
    ],
)
def test_the_order_of_positions(one: str, order: str, other: str) -> None:
    mine, theirs = PostgresLog.decode(one), PostgresLog.decode(other)
    reverse = {"before": "after", "after": "before"}.get(order, order)
    assert (mine.order(theirs), theirs.order(mine)) == (order, reverse)


@pytest.mark.parametrize(
    "text",
    [
        "", "yesterday", "lsn:", "lsn:0/1", "lsn:7:1:0", "lsn:7:1:g/1", "lsn:7:0/1",
        "lsn:7:1:0/123456789", "lsn:-7:1:0/1", "lsn:7:x:0/1", "lsn:7:1:0/1:2",
        "lsn:٧:1:0/1", "2026-01-31T08:00:00.000000Z",
    ],
)  # fmt: skip
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        PostgresLog.decode(text)
    assert caught.value.code == "bad_position"


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_places_are_ordered_as_numbers(one: int, other: int) -> None:
    mine, theirs = PostgresLog("7", 1, one), PostgresLog("7", 1, other)
    assert PostgresLog.decode(mine.encode()) == mine
    assert lsn_of(lsn_text(one)) == one
    assert (mine.order(theirs) == "before") == (one < other)
