"""Facts as timelines and charts, and words for all that can cost points."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from django.utils import timezone

from frontend.charts import Mark, lane_of
from frontend.reading.health_charts import charts_of, timeline_of
from ingest.actions.registry import ACTIONS
from ingest.maintenance.facts import MB, Done, LakeFacts, Pending
from ingest.maintenance.write_amplification import Written

ROOT = Path(__file__).resolve().parents[3]
DAY = "20260101"
FACTS = LakeFacts(
    at="2026-01-01T12:00:00Z",
    sizes=(0, 1, 0, 0, 0, 0),
    commits=(
        Done(f"{DAY}100000000", "deltacommit", 60.0),
        Done(f"{DAY}110000000", "compaction", 600.0),
    ),
)


@pytest.mark.parametrize(
    ("mark", "x", "width"),
    [
        (Mark(0, 25, "a quarter"), "0.00", "25.00"),
        (Mark(50, 50, "a moment"), "50.00", "0.40"),
        (Mark(100, 100, "the end"), "99.60", "0.40"),
        (Mark(-50, 50, "from before"), "0.00", "50.00"),
        (Mark(90, 200, "longer"), "90.00", "10.00"),
    ],
)
def test_a_mark_lies_where_it_happened(mark: Mark, x: str, width: str) -> None:
    (bar,) = lane_of("Writes", [mark], begin=0, end=100, summary="").bars
    assert (bar.x, bar.width, bar.tip) == (x, width, mark.tip)


def test_what_ended_before_is_not_drawn() -> None:
    lane = lane_of("Writes", [Mark(-9, -1, "x")], begin=0, end=100, summary="none")
    assert (lane.bars, lane.summary) == ([], "none")


def test_a_timeline_has_a_lane_for_each_kind_and_for_all_that_is_unfinished() -> None:
    stuck = Pending(f"{DAY}090000000", "compaction", "INFLIGHT", 10_800, False, 1)
    busy = Pending(f"{DAY}113000000", "deltacommit", "REQUESTED", 1_800, True, 0)
    facts = replace(FACTS, pending=(stuck, busy), rollbacks=(f"{DAY}111500000",))
    found = timeline_of(facts)
    assert found is not None
    assert (found.first, found.last) == ("01-01 10:00", "01-01 12:00")
    drawn = [(lane.title, len(lane.bars), lane.summary) for lane in found.lanes]
    assert drawn == [
        ("Writes", 1, "Writes: 1."),
        ("Compactions", 1, "Compactions: 1."),
        ("Rollbacks", 1, "Rollbacks: 1."),
        ("Compaction, started", 1, "Compaction, started: 1."),
        ("Write, planned", 1, "Write, planned: 1."),
    ]
    bars = [found.lanes[3].bars[0], found.lanes[4].bars[0]]
    assert [(bar.x, bar.width, bar.tone) for bar in bars] == [
        ("0.00", "100.00", "warn"),
        ("75.00", "25.00", "idle"),
    ]
    assert timeline_of(replace(FACTS, commits=())) is None


def test_charts_are_drawn_of_what_there_is() -> None:
    assert [c.title for c in charts_of(FACTS, [], Written())] == [
        "Time a commit took",
        "Base files by size in MB",
    ]
    facts = replace(
        FACTS,
        log_bytes=3 * MB,
        bucket_bytes=(4 * MB, 2 * MB, 2 * MB),
        bucket_log_bytes=(3 * MB, 0, 2 * MB),
        rollbacks=(f"{DAY}111500000", f"{DAY}114500000", "20251230000000000"),
    )
    point = {"score": 90, "log_bytes": 5}
    trend = [
        point | {"at": "2026-01-01T10:00:00Z"},
        point | {"at": "2026-01-01T11:00:00Z", "lag": 7.0},
    ]
    charts = {chart.title: chart for chart in charts_of(facts, trend, Written())}
    ratios = charts["Log bytes per base byte, by bucket"].bars
    # the third bucket has no base file to compare with
    assert [bar.tip for bar in ratios] == ["bucket 0: 3.00", "bucket 1: 0.00"]
    rollbacks = charts["Rollbacks, by hour"]
    assert [b.tip for b in rollbacks.bars if b.height != "0.00"] == ["11:00: 2"]
    assert len(rollbacks.bars) == 24
    with timezone.override("Asia/Kolkata"):
        local = {one.title: one for one in charts_of(facts, trend, Written())}
    begun = [b.tip for b in local["Rollbacks, by hour"].bars if b.height != "0.00"]
    assert begun == ["16:30: 2"]
    # a point from before lag was kept has none
    assert [b.tip for b in charts["Lag"].bars] == ["01-01 11:00: 7.0 s"]


def test_every_action_says_what_it_does_what_waits_and_the_way_back() -> None:
    for action in ACTIONS.values():
        for text in (action.does, action.blocks, action.undo):
            assert re.fullmatch(r"[A-Z].*\.", text), (action.name, text)
