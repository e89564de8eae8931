"""What a lake table's facts look like: its timeline and charts, each in words. Pure.

What is good or bad about them is `ingest.maintenance.score`'s to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from frontend.charts import Chart, Lane, Mark, Point, chart_of, lane_of
from frontend.templatetags.figures import duration, figure, size
from ingest.lake.hudi.timeline import at_of
from ingest.maintenance.facts import SIZE_BINS, LakeFacts, Pending
from ingest.maintenance.health_list import band_of
from ingest.maintenance.write_amplification import Written

# CSS classes of the bands of scores
TONES = {"bad": "bad", "fair": "warn", "good": "ok", "unseen": "idle"}
HOURS = 24
MOST_UNFINISHED = 5
ACTIONS_OF_HUDI = {
    "compaction": _("Compaction"),
    "deltacommit": _("Write"),
    "commit": _("Snapshot"),
    "replacecommit": _("Replacement"),
    "rollback": _("Rollback"),
    "clean": _("Cleaning"),
    "restore": _("Restore"),
}
_NAMES = (_("below 1"), "8", "32", "128", "512", _("more"))
assert len(_NAMES) == len(SIZE_BINS) + 1


@dataclass(frozen=True, slots=True)
class TimelineChart:
    """A table's timeline as lanes; `first` and `last` are the ends of its time."""

    title: str
    note: str
    first: str
    last: str
    lanes: list[Lane]


def tone_of(score: int | None) -> str:
    return TONES[band_of(score).name]


def called(action: str, state: str) -> str:
    """What is unfinished, in two words."""
    word = ACTIONS_OF_HUDI.get(action, action.capitalize())
    if state == "INFLIGHT":
        return gettext("%(what)s, started") % {"what": word}
    return gettext("%(what)s, planned") % {"what": word}


def timeline_of(facts: LakeFacts) -> TimelineChart | None:
    """From the oldest commit that is shown to the look; None while there is none."""
    seen_at = datetime.fromisoformat(facts.at)
    asked = [at_of(done.instant) for done in facts.commits]
    asked = asked or [at_of(pending.instant) for pending in facts.pending]
    begin = min((at for at in asked if at), default=None)
    if begin is None:
        return None
    lanes = []
    for title, marks in _lanes(facts, seen_at):
        number = figure(len(marks)) if marks else gettext("none")
        summary = gettext("%(title)s: %(number)s.") % {"title": title, "number": number}
        ends = {"begin": begin.timestamp(), "end": seen_at.timestamp()}
        lanes.append(lane_of(title, marks, summary=summary, **ends))
    return TimelineChart(
        gettext("What happened, and when"),
        gettext(
            "Bar width = duration. Unfinished work reaches the right edge: grey while "
            "a job runs on it, brown while none does."
        ),
        f"{timezone.localtime(begin):%m-%d %H:%M}",
        f"{timezone.localtime(seen_at):%m-%d %H:%M}",
        lanes,
    )


def _lanes(facts: LakeFacts, seen_at: datetime) -> list[tuple[str, list[Mark]]]:
    writes: list[Mark] = []
    compactions: list[Mark] = []
    for done in facts.commits:
        what = ACTIONS_OF_HUDI.get(done.action, done.action)
        tip = f"{what} {done.instant}: {duration(done.seconds)}"
        mark = _mark(done.instant, done.seconds, tip)
        (compactions if done.action == "compaction" else writes).append(mark)
    rollbacks = [
        _mark(r, 0.0, f"{ACTIONS_OF_HUDI['rollback']} {r}", "warn")
        for r in facts.rollbacks
    ]
    unfinished = [
        (called(one.action, one.state), [_unfinished(one, seen_at)])
        for one in facts.pending[:MOST_UNFINISHED]
    ]
    return [
        (gettext("Writes"), writes),
        (gettext("Compactions"), compactions),
        (gettext("Rollbacks"), rollbacks),
        *unfinished,
    ]


def _unfinished(one: Pending, seen_at: datetime) -> Mark:
    lasted = max(0.0, seen_at.timestamp() - _seconds(one.instant))
    tip = gettext("%(what)s, %(instant)s: for %(time)s") % {
        "what": called(one.action, one.state),
        "instant": one.instant,
        "time": duration(one.age_seconds),
    }
    return _mark(one.instant, lasted, tip, "idle" if one.is_held else "warn")


def _mark(instant: str, seconds: float, tip: str, tone: str = "") -> Mark:
    start = _seconds(instant)
    return Mark(start, start + seconds, tip, tone)


def _seconds(instant: str) -> float:
    at = at_of(instant)
    return at.timestamp() if at else 0.0


def charts_of(
    facts: LakeFacts, trend: Sequence[dict[str, Any]], written: Written
) -> list[Chart]:
    """Those that have something to show."""
    drawn = [
        *_of_commits(facts),
        *_of_files(facts),
        *_of_trend(trend),
        *_of_written(written),
    ]
    return [chart for chart in drawn if chart]


def _of_commits(facts: LakeFacts) -> list[Chart | None]:
    times = [
        Point(_clock(c.instant), c.seconds, "idle" if c.action == "compaction" else "")
        for c in facts.commits
    ]
    return [
        chart_of(
            gettext("Time a commit took"),
            times if len(times) > 1 else [],
            shown=duration,
            note=gettext("Oldest left. Grey: compactions."),
        ),
        chart_of(
            gettext("Rollbacks, by hour"),
            _rollbacks_by_hour(facts),
            shown=_whole,
            note=gettext("Interrupted work of this table that was removed again."),
        ),
    ]


def _rollbacks_by_hour(facts: LakeFacts) -> list[Point]:
    """Of the last day; [] without any."""
    last = datetime.fromisoformat(facts.at).astimezone(UTC)
    last = last.replace(minute=0, second=0, microsecond=0)
    counts = Counter(f"{at:%Y%m%d%H}" for r in facts.rollbacks if (at := at_of(r)))
    hours = [last - timedelta(hours=back) for back in reversed(range(HOURS))]
    found = [(hour, counts[f"{hour:%Y%m%d%H}"]) for hour in hours]
    if not any(count for _, count in found):
        return []
    return [
        Point(f"{timezone.localtime(hour):%H:%M}", float(count), "warn")
        for hour, count in found
    ]


def _of_files(facts: LakeFacts) -> list[Chart | None]:
    sizes = [
        Point(str(name), float(count))
        for name, count in zip(_NAMES, facts.sizes, strict=False)
    ]
    buckets = facts.bucket_bytes if len(facts.bucket_bytes) > 1 else ()
    logs = facts.bucket_log_bytes if len(buckets) else ()
    ratios = [
        Point(_bucket(number), log / (whole - log) if whole > log else None)
        for number, (whole, log) in enumerate(zip(buckets, logs, strict=False))
    ]
    return [
        chart_of(
            gettext("Base files by size in MB"),
            sizes,
            shown=_files,
            names_all=True,
            note=gettext("Up to 8, up to 32 …; 64 to 256 MB are read best."),
        ),
        chart_of(
            gettext("Bytes per bucket"),
            [Point(_bucket(n), float(count)) for n, count in enumerate(buckets)],
            shown=size,
            note=gettext("Even heights are good: a task works on a bucket."),
        ),
        chart_of(
            gettext("Log bytes per base byte, by bucket"),
            ratios if facts.log_bytes else [],
            shown="{:.2f}".format,
            note=gettext(
                "What readers merge while they read; a compaction brings it to 0."
            ),
        ),
    ]


def _of_trend(trend: Sequence[dict[str, Any]]) -> list[Chart | None]:
    if len(trend) < 2:
        return []
    days = [_day(point["at"]) for point in trend]
    scores = [
        Point(day, float(p["score"]), tone_of(p["score"]))
        for day, p in zip(days, trend, strict=True)
    ]
    return [
        chart_of(
            gettext("Score"), scores, shown=_whole, note=gettext("100: no issues.")
        ),
        chart_of(
            gettext("Lag"),
            [Point(day, p.get("lag")) for day, p in zip(days, trend, strict=True)],
            shown=duration,
            note=gettext("How old the state was that readers saw, at each check."),
        ),
        chart_of(
            gettext("Log files"),
            [
                Point(day, float(p["log_bytes"]))
                for day, p in zip(days, trend, strict=True)
            ],
            shown=size,
            note=gettext("They grow with each commit and go with a compaction."),
        ),
    ]


def _of_written(written: Written) -> list[Chart | None]:
    """What upkeep costs, and how the table grows, by day."""
    if len(written.days) < 2:
        return []
    days = [f"{date.fromisoformat(day.day):%m-%d}" for day in written.days]

    def bars(title: str, values: list[int], note: str) -> Chart | None:
        points = [Point(*one) for one in zip(days, map(float, values), strict=True)]
        return chart_of(title, points, shown=size, note=note)

    return [
        bars(
            gettext("What readers read, by day"),
            [day.table_bytes for day in written.days],
            gettext("Base and log files of the newest state."),
        ),
        bars(
            gettext("Bytes of changed rows, by day"),
            [day.changed_bytes for day in written.days],
            gettext("What syncs wrote."),
        ),
        bars(
            gettext("Bytes rewritten by maintenance, by day"),
            [day.upkeep_bytes for day in written.days],
            gettext("What compactions and repairs wrote."),
        ),
    ]


def _files(value: float) -> str:
    text = ngettext("%(count)s file", "%(count)s files", int(value))
    return text % {"count": figure(int(value))}


def _bucket(number: int) -> str:
    return gettext("bucket %(number)s") % {"number": number}


def _whole(value: float) -> str:
    return str(int(value))


def _clock(instant: str) -> str:
    at = at_of(instant)
    return f"{timezone.localtime(at):%H:%M:%S}" if at else instant


def _day(text: str) -> str:
    return f"{timezone.localtime(datetime.fromisoformat(text)):%m-%d %H:%M}"
