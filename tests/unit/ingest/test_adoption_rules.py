"""What becomes of a table when the lake knows more than a restored database."""

from __future__ import annotations

import dataclasses

import pytest

from ingest.pipelines.adoption_rules import Finding, Known, Seen, judge, next_epoch

KNOWN = Known("2" * 17, 5, "p5", 1, frozenset({"id"}))
SEEN = Seen("2" * 17, "2" * 17, "p5", 5, 1, frozenset({"id"}))


@pytest.mark.parametrize(
    ("known", "seen", "expected"),
    [
        ({}, {}, Finding("agrees", f"both are at {'2' * 17}")),
        ({"is_busy": True}, {"problem": "x"}, "busy"),
        ({}, {"problem": "x", "is_passing": True}, "unreachable"),
        ({}, {"problem": "damaged"}, "needs resync"),
        ({}, {"instant": "", "newest": ""}, "missing"),
        ({"instant": ""}, {"instant": "", "newest": ""}, "agrees"),
        ({"instant": ""}, {}, "ahead"),
        ({}, {"instant": "3" * 17, "newest": "3" * 17}, "ahead"),
        # only compacted since
        ({}, {"newest": "3" * 17}, "agrees"),
        ({}, {"instant": "1" * 17, "newest": "1" * 17}, "went back"),
        # and compacted since
        ({}, {"instant": "1" * 17, "newest": "3" * 17, "epoch": 4}, "went back"),
        ({"load_epoch": 5}, {}, "ahead"),
        ({"load_epoch": 6}, {}, "agrees"),
        ({}, {"source": 2}, "needs resync"),
        ({}, {"drift": ("key is id, not x",)}, "needs resync"),
        ({}, {"columns": frozenset({"id", "more"})}, "needs resync"),
        ({}, {"columns": frozenset()}, "agrees"),
    ],
)
def test_what_a_table_is_found_to_be(known, seen, expected) -> None:
    found = judge(
        dataclasses.replace(KNOWN, **known), dataclasses.replace(SEEN, **seen)
    )
    assert expected in (found, found.status)


@pytest.mark.parametrize(
    ("known", "handed_out", "expected"),
    [(5, 6, 6), (5, 5, 1006), (0, 1, 1), (9, 2, 1010)],
)
def test_epochs_go_on_behind_those_that_drivers_may_hold(
    known, handed_out, expected
) -> None:
    assert next_epoch(known, handed_out, margin=1_000) == expected
    assert next_epoch(known, expected, margin=1_000) == expected
