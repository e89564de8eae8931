"""Commits of a lake table as lines and charts, from the lake's own timeline."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone
from django.utils.translation import gettext, ngettext

from catalog.models import Table
from frontend.charts import Chart, Point, chart_of
from frontend.reading.health_charts import ACTIONS_OF_HUDI
from frontend.templatetags.figures import duration, figure
from ingest.lake.commits import Commit
from ingest.lake.hudi.timeline import at_of
from ingest.pipelines import samples

COMMITS = 40
LISTED = 20


@dataclass(frozen=True, slots=True)
class CommitRow:
    """One commit as a line of the list.

    action   what Hudi calls it
    rows     written or deleted
    seconds  from asking for the instant to its completion
    lag      how far the source's changes were behind when they could be read here
    """

    instant: str
    at: datetime | None
    action: str
    rows: int
    size: int
    seconds: float | None
    lag: float | None
    epochs: str
    position: str

    @property
    def what(self) -> str:
        return str(ACTIONS_OF_HUDI.get(self.action, self.action))

    @property
    def is_quiet(self) -> bool:
        """It changed no row: nobody who looks for rows looks for it."""
        return self.action == "compaction" or (
            self.action == "deltacommit" and not self.rows
        )


@dataclass(frozen=True, slots=True)
class Commits:
    """hidden: how many of the newest are left out, as they changed no rows."""

    rows: list[CommitRow]
    charts: list[Chart]
    hidden: int = 0
    is_whole: bool = False


def commits_of(table: Table, *, is_whole: bool) -> Commits:
    """The newest commits that changed rows, or all; nothing before the first."""
    page = samples.commits_of(table, size=COMMITS)
    return shown_of([_row(commit) for commit in page.commits], is_whole=is_whole)


def shown_of(newest: list[CommitRow], *, is_whole: bool) -> Commits:
    rows = [row for row in newest if is_whole or not row.is_quiet]
    hidden = len(newest) - len(rows)
    return Commits(rows[:LISTED], charts_of(rows), hidden, is_whole)


def charts_of(rows: list[CommitRow]) -> list[Chart]:
    """Rows, duration and lag per commit, oldest left; none for a single commit."""
    if len(rows) < 2:
        return []
    oldest_first = rows[::-1]
    labels = [
        f"{timezone.localtime(row.at):%H:%M:%S}" if row.at else row.instant
        for row in oldest_first
    ]
    tones = ["idle" if row.action == "compaction" else "" for row in oldest_first]
    drawn = (
        (
            gettext("Rows per commit"),
            [float(row.rows) for row in oldest_first],
            rows_shown,
        ),
        (
            gettext("Time a commit took"),
            [row.seconds for row in oldest_first],
            duration,
        ),
        (gettext("Lag at the commit"), [row.lag for row in oldest_first], duration),
    )
    charts = []
    for title, values, shown in drawn:
        points = [Point(*one) for one in zip(labels, values, tones, strict=True)]
        chart = chart_of(title, points, shown=shown)
        if chart:
            charts.append(chart)
    return charts


def rows_shown(value: float) -> str:
    """The number with its word, for the tips of a chart."""
    text = ngettext("%(count)s row", "%(count)s rows", int(value))
    return text % {"count": figure(int(value))}


def _row(commit: Commit) -> CommitRow:
    position = commit.position
    epochs, end = "", None
    if position is not None:
        first, last = position.epoch_from, position.epoch_to
        epochs = str(last) if first == last else f"{first}-{last}"
        end = _source_time(position.end)
    asked = at_of(commit.instant.asked)
    completed = at_of(commit.instant.completed or commit.instant.asked)
    action = commit.instant.action
    return CommitRow(
        instant=commit.instant.asked,
        at=completed,
        action=action,
        rows=commit.rows_written + commit.rows_deleted,
        size=commit.bytes_written,
        seconds=_between(asked, completed),
        lag=None if action == "compaction" else _between(end, completed),
        epochs=epochs,
        position=position.end if position else "",
    )


def _source_time(position: str) -> datetime | None:
    """The source's time in a position of timestamp capture; None for others."""
    try:
        found = datetime.fromisoformat(position)
    except ValueError:
        return None
    return found if found.tzinfo else None


def _between(start: datetime | None, end: datetime | None) -> float | None:
    if start is None or end is None:
        return None
    return max(0.0, (end - start).total_seconds())
