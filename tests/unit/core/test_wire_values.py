"""What JSON cannot say by itself: instants, large numbers, places in a document."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from core.json_values import below, escape, exact, iso, unescape


@pytest.mark.parametrize(
    ("number", "sent"),
    [
        (0, 0),
        (2**53, 2**53),
        (-(2**53), -(2**53)),
        (2**53 + 1, "9007199254740993"),
        (-(2**53) - 1, "-9007199254740993"),
    ],
)
def test_a_number_that_readers_would_round_is_text(number, sent) -> None:
    assert exact(number) == sent


def test_instants_are_in_utc_with_z() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2)))
    assert iso(at) == "2026-01-02T01:04:05Z"
    assert iso(at.astimezone(UTC)) == iso(at)


@pytest.mark.parametrize("name", ["a", "a/b", "~", "~1", "a~/b", ""])
def test_a_name_comes_back_from_its_pointer(name) -> None:
    assert unescape(escape(name)) == name
    assert "/" not in escape(name)
    assert below("/tables", name) == f"/tables/{escape(name)}"
