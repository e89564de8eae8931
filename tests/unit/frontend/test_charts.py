"""Charts as numbers and words, and what commits become in them."""

from __future__ import annotations

import pytest

from frontend.charts import Point, chart_of
from frontend.reading.commits import CommitRow, charts_of
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
    def row(instant: str, what: str, lag: float | None) -> CommitRow:
        return CommitRow(instant, at_of(instant), what, 7, 1, 2.0, lag, "1", "")

    rows = [
        row("20261121113010000", "compaction", None),
        row("20261121113000000", "upsert", 12.0),
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
