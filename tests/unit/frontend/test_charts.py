"""Charts as numbers and words, and what commits become in them."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest
from django.utils import translation

from frontend.charts import Point, chart_of, shares_of
from frontend.reading.commits import CommitRow, charts_of, shown_of
from frontend.reading.routes import SPANS, weighted_quantile
from ingest.lake.hudi.timeline import at_of


def shown(value: float) -> str:
    return f"{value:g} u"


def test_bars_fill_the_box_and_the_highest_reaches_its_top():
    points = [Point("a", 5.0), Point("b", None), Point("c", 10.0, "bad"), Point("d", 0)]
    chart = chart_of("Rows", points, shown=shown)
    assert chart is not None
    assert [bar.tip for bar in chart.bars] == ["a: 5 u", "c: 10 u", "d: 0 u"]
    assert [bar.height for bar in chart.bars] == ["50.00", "100.00", "0.00"]
    assert chart.bars[1].y == "0.00"
    assert chart.bars[1].tone == "bad"
    assert float(chart.bars[2].x) + float(chart.bars[2].width) < 100
    assert (chart.top, chart.first, chart.last) == ("10 u", "a", "d")
    assert chart.summary == "Rows, a to d: lowest 0 u, highest 10 u, last 0 u."


def test_little_is_seen_and_nothing_known_is_no_chart():
    small = chart_of("R", [Point("a", 1.0), Point("b", 1e6)], shown=shown)
    assert small is not None
    assert float(small.bars[0].height) == 1.5
    assert chart_of("R", [], shown=shown) is None
    assert chart_of("R", [Point("a", None)], shown=shown) is None


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        ("20261121113000123", "2026-11-21T11:30:00.123000+00:00"),
        ("20261121113000", "2026-11-21T11:30:00+00:00"),
        ("nonsense", None),
    ],
)
def test_an_instant_as_a_time(instant, text):
    at = at_of(instant)
    assert (at.isoformat() if at else None) == text


def test_commits_as_charts():
    def row(instant: str, action: str, lag: float | None) -> CommitRow:
        return CommitRow(instant, at_of(instant), action, 7, 1, 2.0, lag, "1", "")

    rows = [
        row("20261121113010000", "compaction", None),
        row("20261121113000000", "deltacommit", 12.0),
    ]
    charts = charts_of(rows)
    assert [chart.title for chart in charts] == [
        "Rows per commit",
        "Time a commit took",
        "Lag at the commit",
    ]
    assert charts[0].first == "11:30:00"
    assert charts[0].bars[1].tone == "idle"
    assert [bar.tip for bar in charts[2].bars] == ["11:30:00: 12 s"]
    assert charts_of(rows[:1]) == []
    newest = shown_of(rows, is_whole=False)
    assert ([one.action for one in newest.rows], newest.hidden) == (["deltacommit"], 1)
    assert shown_of(rows, is_whole=True).rows == rows
    with translation.override("zh-hans"):
        assert charts_of(rows)[0].top == "7 行"
        assert [row.what for row in rows] == ["压缩", "写入"]


def test_a_part_of_a_bar_is_drawn_over_it_and_a_root_lifts_low_bars():
    points = [Point("a", 100.0), Point("b", 4.0, part=1.0, part_tone="bad")]
    chart = chart_of("t", points, shown=str, scale=math.sqrt)
    assert chart is not None
    heights = [(bar.height, bar.tone) for bar in chart.bars]
    assert heights == [("100.00", ""), ("20.00", ""), ("10.00", "bad")]


def test_shares_lie_side_by_side():
    bars = shares_of([("ok", 3), ("bad", 1)])
    assert [(bar.x, bar.width) for bar in bars] == [
        ("0.00", "75.00"),
        ("75.00", "25.00"),
    ]


def test_a_quantile_weighs_values_and_slots_end_with_what_is_known():
    assert weighted_quantile([(9.0, 1), (1.0, 99)], 0.95) == 1.0
    assert weighted_quantile([(9.0, 10), (1.0, 90)], 0.95) == 9.0
    now = datetime(2026, 11, 26, 20, 47, 5, tzinfo=UTC)
    assert SPANS["1h"].begins(now)[-1] == now.replace(minute=46, second=0)
    assert SPANS["24h"].begins(now)[-1] == now.replace(minute=0, second=0)
    assert len(SPANS["7d"].begins(now)) == 168
