"""What counts say: verdicts, words, buckets and keys as people know them."""

from __future__ import annotations

import pytest

from ingest.maintenance.verdict import (
    Comparison,
    Sums,
    differing_buckets,
    facts_of,
    readable_key,
    words_for,
)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (Comparison(5, 5), "equal"),
        (Comparison(0, 0), "equal"),
        (Comparison(5, 5, pending=2), "equal"),
        (Comparison(6, 5, missing=1), "different"),
        (Comparison(5, 6, extra=1), "different"),
        (Comparison(5, 5, different=1), "different"),
        (Comparison(5, 5, different=1, pending=3), "different"),
    ],
)
def test_verdicts(found: Comparison, verdict: str) -> None:
    assert found.verdict == verdict


@pytest.mark.parametrize(
    ("found", "position", "words"),
    [
        (Comparison(1, 1), "P", "Equal: 1 row on both sides."),
        (Comparison(1200, 1200), "", "Equal: 1,200 rows on both sides."),
        (
            Comparison(5, 4, pending=1),
            "P",
            "Equal up to P: 1 newer change at the source will come with the next sync.",
        ),
        (
            Comparison(5, 4, missing=1, different=2, pending=3),
            "P",
            "Different: 1 row missing in the lake, 2 keys with other values."
            " 3 newer changes not counted: pending.",
        ),
        (
            Comparison(5, 7, extra=2),
            "P",
            "Different: 2 rows only in the lake. Timestamp capture does not see"
            " deletes: rows deleted at the source stay in the lake until a repair.",
        ),
        (
            Comparison(5, 7, extra=2),
            "",
            "Different: 2 rows only in the lake. The table follows no cursor, so"
            " changes since its load count too.",
        ),
    ],
)
def test_words(found: Comparison, position: str, words: str) -> None:
    assert words_for(found, position=position) == words


@pytest.mark.parametrize(
    ("source", "lake", "differing"),
    [
        ({}, {}, []),
        ({1: Sums(2, 3)}, {1: Sums(2, 3)}, []),
        ({1: Sums(2, 3)}, {}, [1]),
        ({}, {7: Sums(1, 1)}, [7]),
        ({1: Sums(2, 4), 2: Sums(1, 1)}, {1: Sums(2, 5), 2: Sums(1, 1)}, [1]),
        ({1: Sums(2, 4)}, {1: Sums(3, 4)}, [1]),
    ],
)
def test_buckets_that_have_to_be_looked_into(source, lake, differing) -> None:
    assert differing_buckets(source, lake) == differing


def test_sums_wrap_around_alike_whatever_was_summed_where() -> None:
    """One side sums whole, the other by chunks; a sum in the JVM wraps below zero."""
    most = (1 << 63) - 1
    parts = [Sums(1, most), Sums(1, most), Sums(1, 7)]
    wrapped = (2 * most + 7 + (1 << 63)) % (1 << 64) - (1 << 63)
    assert Sums.total(parts) == Sums.of({"rows": 3, "hash": wrapped})
    assert Sums.total([]) == Sums.of({"rows": None, "hash": None}) == Sums(0, 0)


@pytest.mark.parametrize(
    ("text", "parts", "is_native", "shown"),
    [
        ("17", 1, True, "17"),
        (None, 1, True, "NULL"),
        ("3:abc", 1, False, "abc"),
        ("1:a2:17", 2, False, "a, 17"),
        ("0:1:1", 2, False, ", 1"),
        ("5:x%2Cy", 1, False, "x,y"),
        ("5:50%25", 1, False, "50%"),
        ("7:%252C:x", 1, False, "%2C:x"),
        ("3:1:a", 1, False, "1:a"),
        ("ab12", 0, False, "ab12"),
        ("not prefixed", 2, False, "not prefixed"),
    ],
)
def test_keys_as_people_know_them(text, parts, is_native, shown) -> None:
    assert readable_key(text, parts=parts, is_native=is_native) == shown


def test_facts_name_every_kind_of_key() -> None:
    facts = facts_of(
        Comparison(2, 1, missing=1), keys={"missing": ["7"]}, instant="I", position="P"
    )
    assert facts["verdict"] == "different"
    assert facts["keys"] == {"missing": ["7"], "extra": [], "different": []}
