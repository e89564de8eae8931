"""Small bar charts as numbers for one SVG template. Pure; every chart has its words.

Bars are drawn in a box of 100 by 100 that the page stretches, so that text never is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext

HIGH = 100.0
LEAST = 1.5  # a bar that is not zero can be seen
LEAST_WIDTH = 0.4


@dataclass(frozen=True, slots=True)
class Point:
    """One bar: what it stands for, how high it is (None = not known), its tone; `part`
    of it is drawn in another one. tip: instead of the value in words."""

    label: str
    value: float | None
    tone: str = ""
    part: float = 0.0
    part_tone: str = ""
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    x: str
    y: str
    width: str
    height: str
    tip: str
    tone: str


@dataclass(frozen=True, slots=True)
class Chart:
    """`summary` says in words what the bars show; `names` stand under all bars; `note`
    is a sentence on how to read it, or ""."""

    title: str
    top: str
    first: str
    last: str
    summary: str
    bars: list[Bar]
    names: list[str]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened from `start` to `end`, seconds since 1970."""

    start: float
    end: float
    tip: str
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Lane:
    """One kind of things that happened, drawn as one row of bars."""

    title: str
    summary: str
    bars: list[Bar]


def lane_of(
    title: str, marks: Sequence[Mark], *, begin: float, end: float, summary: str
) -> Lane:
    """Marks where they lie between `begin` and `end`, wide enough to be seen. What
    began before is drawn from the left edge on, what ended before not at all."""
    step = 100.0 / max(end - begin, 1.0)
    bars = []
    for mark in marks:
        if mark.end < begin:
            continue
        start = max(mark.start, begin)
        x = min(step * (start - begin), 100.0 - LEAST_WIDTH)
        width = min(max(LEAST_WIDTH, step * (mark.end - start)), 100.0 - x)
        bars.append(
            Bar(
                x=f"{x:.2f}",
                y="0",
                width=f"{width:.2f}",
                height=f"{HIGH:.0f}",
                tip=mark.tip,
                tone=mark.tone,
            )
        )
    return Lane(title, summary, bars)


def chart_of(
    title: str,
    points: Sequence[Point],
    *,
    shown: Callable[[float], str],
    names_all: bool = False,
    note: str = "",
    scale: Callable[[float], float] = float,
) -> Chart | None:
    """Bars from left to right; None when there is nothing to draw. scale: of heights,
    `math.sqrt` where one high bar would flatten all others."""
    known = [point.value for point in points if point.value is not None]
    if not known:
        return None
    highest = max(known)
    step = 100.0 / len(points)
    gap = min(0.6, step * 0.2)
    bars = []
    for place, point in enumerate(points):
        if point.value is None:
            continue
        parts = [(point.value, point.tone)]
        if point.part:
            parts.append((point.part, point.part_tone))
        for value, tone in parts:
            height = _height(scale(value), scale(highest))
            bars.append(
                Bar(
                    x=f"{place * step + gap / 2:.2f}",
                    y=f"{HIGH - height:.2f}",
                    width=f"{step - gap:.2f}",
                    height=f"{height:.2f}",
                    tip=f"{point.label}: {point.tip or shown(point.value)}",
                    tone=tone,
                )
            )
    return Chart(
        title=title,
        top=shown(highest),
        first=points[0].label,
        last=points[-1].label,
        summary=_summary(title, known, points, shown),
        bars=bars,
        names=[point.label for point in points] if names_all else [],
        note=note,
    )


def shares_of(parts: Sequence[tuple[str, int]]) -> list[Bar]:
    """(tone, how many) side by side, over the whole width."""
    total = max(1, sum(count for _, count in parts))
    bars, x = [], 0.0
    for tone, count in parts:
        width = 100.0 * count / total
        bars.append(Bar(f"{x:.2f}", "0", f"{width:.2f}", f"{HIGH:.0f}", "", tone))
        x += width
    return bars


def _height(value: float, highest: float) -> float:
    if value <= 0 or highest <= 0:
        return 0.0
    return max(LEAST, HIGH * value / highest)


def _summary(
    title: str,
    known: list[float],
    points: Sequence[Point],
    shown: Callable[[float], str],
) -> str:
    text = gettext(
        "%(title)s, %(first)s to %(end)s: lowest %(lowest)s, highest %(highest)s, "
        "last %(last)s."
    )
    return text % {
        "title": title,
        "first": points[0].label,
        "end": points[-1].label,
        "lowest": shown(min(known)),
        "highest": shown(max(known)),
        "last": shown(known[-1]),
    }
