"""Times and sizes as people write them."""

from __future__ import annotations

import pytest

from frontend.forms.quantities import amount_in, in_units


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("90", "s", 90),
        ("90s", "s", 90),
        ("1.5 min", "s", 90),
        ("2 h 10 min", "s", 7800),
        ("1 D", "s", 86_400),
        ("256 MB", "bytes", 256_000_000),
        ("1.5gb", "bytes", 1_500_000_000),
        ("64 GiB", "bytes", 64 * 1024**3),
        ("7", "bytes", 7),
        ("", "s", None),
        ("-5", "s", None),
        ("soon", "s", None),
        ("5 MB", "s", None),
        ("5 min", "bytes", None),
        ("1,5 s", "s", None),
        ("1.2.3 s", "s", None),
        ("1.11.1 s", "s", None),
        ("1" * 59 + ".", "s", None),
    ],
)
def test_what_is_written_is_understood(text, unit, expected) -> None:
    assert amount_in(text, unit) == expected


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "s", "0 s"),
        (1.5, "s", "1.5 s"),
        (90, "s", "90 s"),
        (900, "s", "15 min"),
        (86_400, "s", "1 d"),
        (0, "bytes", "0 B"),
        (1023, "bytes", "1023 B"),
        (256_000_000, "bytes", "256 MB"),
        (268_435_456, "bytes", "256 MiB"),
        (68_719_476_736, "bytes", "64 GiB"),
    ],
)
def test_what_is_shown_means_the_same(value, unit, text) -> None:
    assert in_units(value, unit) == text
    assert amount_in(text, unit) == value
