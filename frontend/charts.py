"""Small bar charts as numbers for one SVG template. Pure; every chart has its words.

Bars are drawn in a box of 100 by 100 that the page stretches, so that text never is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

HIGH = 100.0
LEAST = 1.5  # a bar that is not zero can be seen


@dataclass(frozen=True, slots=True)
class Point:
    """One bar: what it stands for, how high it is (None = not known), its tone."""

    label: str
    value: float | None
    tone: str = ""


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
    """`summary` says in words what the bars show; `names` stand under all bars."""

    title: str
    top: str
    first: str
    last: str
    summary: str
    bars: list[Bar]
    names: list[str]


def chart_of(
    title: str,
    points: Sequence[Point],
    *,
    shown: Callable[[float], str],
    names_all: bool = False,
) -> Chart | None:
    """Bars from left to right; None when there is nothing to draw."""
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
        height = _height(point.value, highest)
        bars.append(
            Bar(
                x=f"{place * step + gap / 2:.2f}",
                y=f"{HIGH - height:.2f}",
                width=f"{step - gap:.2f}",
                height=f"{height:.2f}",
                tip=f"{point.label}: {shown(point.value)}",
                tone=point.tone,
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
    )


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
    return (
        f"{title}, {points[0].label} to {points[-1].label}: "
        f"lowest {shown(min(known))}, highest {shown(max(known))}, "
        f"last {shown(known[-1])}."
    )
