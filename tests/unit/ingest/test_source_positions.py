"""Positions of sources: their order by examples, and their text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InvalidRequest, TerminalError
from ingest.contract.source_positions import (
    GtidSet,
    KafkaOffsets,
    LogSequence,
    MariaDbGtid,
    compare,
    decode,
    is_cursor,
    later,
)
from ingest.lake.hudi.identity import TableIdentity
from ingest.lake.hudi.position import CommitPosition, decode_position, encode_position

A, B = "0a" * 4 + "-0a0a" * 3 + "-" + "0a" * 6, "0b" * 4 + "-0b0b" * 3 + "-" + "0b" * 6
DAY, NIGHT = "2026-01-31T08:00:00.000000", "2026-01-31T20:00:00.000000"


@pytest.mark.parametrize(
    ("one", "order", "other"),
    [
        ("", "equal", ""),
        ("", "before", DAY),
        (DAY, "before", NIGHT),
        (f"{DAY}Z", "before", f"{NIGHT}Z"),
        (f"{DAY}Z", "unordered", NIGHT),
        # as text 9 is after 1
        ("lsn:9/0", "before", "lsn:10/0"),
        ("lsn:0/FFFFFFFF", "before", "lsn:1/0"),
        ("lsn:0/a", "equal", "lsn:0/A"),
        ("binlog:1:bin.999999:4", "before", "binlog:1:bin.1000000:4"),
        ("binlog:1:bin.000009:400", "before", "binlog:1:bin.000009:4000"),
        ("binlog:1:bin.000009:4", "unordered", "binlog:2:bin.000009:4"),
        ("mariadb:0-1-5", "before", "mariadb:0-1-10"),
        ("mariadb:0-1-5", "before", "mariadb:0-2-6"),
        ("mariadb:0-1-5", "unordered", "mariadb:0-2-5"),
        ("mariadb:0-1-5", "before", "mariadb:0-1-5,1-1-1"),
        ("mariadb:0-1-5,1-1-9", "unordered", "mariadb:0-1-6,1-1-8"),
        ("mariadb:1-1-9,0-1-5", "equal", "mariadb:0-1-5,1-1-9"),
        ("mariadb:", "before", "mariadb:0-1-5"),
        (f"gtid:{A}:1-5", "before", f"gtid:{A}:1-6"),
        (f"gtid:{A}:1-5", "before", f"gtid:{A}:1-5,{B}:1"),
        (f"gtid:{A}:1-5", "unordered", f"gtid:{B}:1-9"),
        (f"gtid:{A}:1-5,{B}:1-2", "unordered", f"gtid:{A}:1-4,{B}:1-3"),
        (f"gtid:{A}:1-3:5-9", "before", f"gtid:{A}:1-9"),
        (f"gtid:{A}:1-3:5-9", "unordered", f"gtid:{A}:1-8"),
        (f"gtid:{A}:1-3:4-9", "equal", f"gtid:{A.upper()}:1-9"),
        ("gtid:", "before", f"gtid:{A}:1"),
        ('kafka:{"t":{"0":9}}', "before", 'kafka:{"t":{"0":10}}'),
        ('kafka:{"t":{"0":9}}', "before", 'kafka:{"t":{"0":9,"1":0}}'),
        ('kafka:{"t":{"0":9,"1":1}}', "unordered", 'kafka:{"t":{"0":8,"1":2}}'),
        ('kafka:{"t":{"0":1},"u":{"0":2}}', "equal", 'kafka:{"u":{"0":2},"t":{"0":1}}'),
        ("token:8265", "equal", "token:8265"),
        ("token:8265", "unordered", "token:8266"),
        ("lsn:0/1", "unordered", "binlog:1:bin.000001:4"),
        (DAY, "unordered", "lsn:0/1"),
    ],
)
def test_the_order_of_positions(one: str, order: str, other: str) -> None:
    mine, theirs = decode(one), decode(other)
    reverse = {"before": "after", "after": "before"}.get(order, order)
    if order == "unordered":
        for pair in ((mine, theirs), (theirs, mine)):
            with pytest.raises(TerminalError, match="neither") as caught:
                compare(*pair)
            assert caught.value.code == "positions_unordered"
        return
    assert (compare(mine, theirs), compare(theirs, mine)) == (order, reverse)
    assert decode(later(one, other)) == theirs
    assert decode(later(other, one)) == theirs


@pytest.mark.parametrize(
    "text",
    [
        "yesterday", "lsn:", "lsn:0", "lsn:g/1", "lsn:0/123456789", "binlog:1:bin",
        "binlog:1:bin.1:-4", "mariadb:0-1", "mariadb:0-1-5,0-2-6", "mariadb:0-1--5",
        "gtid:x:1", f"gtid:{A}", f"gtid:{A}:0-4", f"gtid:{A}:5-4", "kafka:[1]",
        'kafka:{"t":{"0":-1}}', "kafka:", "token:", "other:1",
    ],
)  # fmt: skip
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode(text)
    assert caught.value.code == "bad_position"


@pytest.mark.parametrize("text", ["", DAY, f"{DAY}Z"])
def test_a_cursor_is_stored_as_former_releases_did(text: str) -> None:
    assert decode(text).encode() == text
    assert is_cursor(text)
    assert not is_cursor("lsn:0/1")


numbers = st.integers(1, 6)
sets = st.dictionaries(
    st.sampled_from([A, B]), st.lists(numbers, min_size=1, max_size=6)
)


@given(sets, sets)
def test_gtid_sets_are_ordered_as_sets(
    one: dict[str, list[int]], other: dict[str, list[int]]
) -> None:
    def position(made: dict[str, list[int]]) -> GtidSet:
        return GtidSet.read(",".join(f"{s}:{n}" for s, ns in made.items() for n in ns))

    mine, theirs = ({(s, n) for s, ns in d.items() for n in ns} for d in (one, other))
    order = {
        (True, True): "equal",
        (True, False): "before",
        (False, True): "after",
        (False, False): "unordered",
    }[mine <= theirs, theirs <= mine]
    assert position(one).order(position(other)) == order
    assert (position(one) == position(other)) == (order == "equal")
    assert decode(position(one).encode()) == position(one)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_log_sequence_numbers_are_ordered_as_numbers(one: int, other: int) -> None:
    mine, theirs = LogSequence(one), LogSequence(other)
    assert decode(mine.encode()) == mine
    assert (compare(mine, theirs) == "before") == (one < other)


@pytest.mark.parametrize(
    "position",
    [
        MariaDbGtid.read("1-1-9,0-3-5"),
        KafkaOffsets.read('{"b:c":{"10":1,"9":2},"a":{"0":0}}'),
        decode("binlog:7:bin.000001:4"),
        decode("token:8265:x"),
    ],
)
def test_positions_survive_their_text(position: object) -> None:
    assert decode(position.encode()) == position  # type: ignore[attr-defined]


def test_a_former_release_reads_a_commit_of_a_cursor_and_no_other() -> None:
    identity = TableIdentity(("id",), 2)
    for end, version in ((f"{DAY}Z", 1), ("", 1), ("lsn:0/1", 2)):
        position = CommitPosition(7, "", end, 1, 2, "job", 4, identity)
        text = encode_position(position)
        assert f'"v":{version},' in text
        assert decode_position(text) == position
