"""Positions in logs: their order by examples, and their text."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InvalidRequest
from ingest.contract.source_positions import (
    MariaDbLog,
    PostgresLog,
    lsn_of,
    lsn_text,
    order_of,
)


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
    known = replace(mine, last="1F-A0-2-0")
    assert PostgresLog.decode(known.encode()) == known
    assert known.order(mine) == "equal"
    assert lsn_of(lsn_text(one)) == one
    assert (mine.order(theirs) == "before") == (one < other)


@pytest.mark.parametrize(
    ("one", "order", "other"),
    [
        # as text 999999 is after 1000000, and 900 after 1000
        ("binlog:1:u:b.999999:0:9:", "before", "binlog:1:u:b.1000000:0:4:"),
        ("binlog:1:u:b.000001:0:900:", "before", "binlog:1:u:b.000001:0:1000:"),
        # beyond the 32 bits that events have for it
        ("binlog:1:u:b.000001:0:4294967297:", "after", "binlog:1:u:b.000001:0:2:"),
        # the same file, whether it is known when it was made, and by which name
        ("binlog:1:u:b.000001:5:9:0-1-7", "equal", "binlog:1:u:c.000001:0:9:"),
        # another server, whatever GTIDs it has
        ("binlog:1:u:b.000001:5:9:0-1-7", "unordered", "binlog:2:u:b.000002:5:9:0-1-8"),
        ("binlog:1:u:b.000001:5:9:", "unordered", "binlog:1:v:b.000002:5:9:"),
        ("binlog:1:u:b.000001:5:9:", "unordered", "lsn:1:1:0/1"),
        ("lsn:7:1:9/0", "before", "lsn:7:1:10/0"),
    ],
)
def test_the_order_of_positions_of_all_kinds(one: str, order: str, other: str) -> None:
    reverse = {"before": "after", "after": "before"}.get(order, order)
    assert (order_of(one, other), order_of(other, one)) == (order, reverse)


@pytest.mark.parametrize(
    "text",
    [
        "", "binlog:", "binlog:1:u:b.000001:5", "binlog:1:u:b:5:9:",
        "binlog:x:u:b.000001:5:9:", "binlog:1:u:b.000001:5:9:uuid", "lsn:7:1:0/1",
        "binlog:1:u:/b.000001:5:9:",
    ],
)  # fmt: skip
def test_other_texts_are_no_positions_of_mariadb(text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        MariaDbLog.decode(text)
    assert caught.value.code == "bad_position"


def test_a_position_of_mariadb_comes_back() -> None:
    place = MariaDbLog(1, "a+b/c=", "my-bin.", 1_000_001, 5, 1 << 40, "0-1-7,1-1-8")
    assert MariaDbLog.decode(place.encode()) == place
    assert place.file == "my-bin.1000001"
    assert MariaDbLog.decode("binlog:1::b.000007:0:4:").file == "b.000007"
