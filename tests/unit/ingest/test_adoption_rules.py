"""What becomes of a table when the lake knows more than a restored database."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from ingest.pipelines.adoption import Streams, follow_stream
from ingest.pipelines.adoption_rules import Finding, Known, Seen, judge
from tests.unit.ingest.test_agreement import at

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


@pytest.mark.parametrize(
    ("capture", "end", "position"),
    [
        ("timestamp", "p6", "p6"),
        # it went over to its log behind the backup, and a cursor goes on as it was
        ("timestamp", "lsn:7:1:0/9", "p5"),
        ("log", "lsn:7:1:0/9", "lsn:7:1:0/9"),
    ],
)
def test_a_cursor_does_not_go_on_from_a_place_in_a_log(
    capture: str, end: str, position: str
) -> None:
    known = dataclasses.replace(KNOWN, capture=capture)
    found = judge(known, dataclasses.replace(SEEN, end=end, epoch=6))
    assert (found.status, found.position) == ("ahead", position)


def test_a_stream_does_not_go_on_behind_a_sync_by_a_cursor() -> None:
    """The table went over to its cursor behind the backup: the number of that commit is
    one of a segment that it may lack."""
    pipeline = cast("Any", SimpleNamespace(lake_table_id=1))
    position = at(30).position
    assert position is not None
    synced = msgspec.structs.replace(position, start="p4", end="p5")
    assert "to a cursor" in follow_stream(pipeline, synced, Streams())
