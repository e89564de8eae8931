"""What becomes of a table when the lake knows more than a restored database."""

from __future__ import annotations

import dataclasses

import pytest

from ingest.pipelines.adoption_rules import Finding, Known, Seen, judge

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
        ({}, {"epoch": 6}, "ahead"),
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
