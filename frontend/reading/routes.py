"""Every pipeline as one row, and all of them as pictures over a range of time."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from urllib.parse import urlencode

from django.utils import timezone
from django.utils.translation import gettext, ngettext

from catalog.access.policy import Principal
from catalog.access.scope import scope_of
from catalog.selectors.tables import datasources_for
from core.jobs import FAILED
from core.models import Job
from frontend.charts import Bar, Chart, Point, chart_of, shares_of
from frontend.templatetags.figures import duration, figure, size
from frontend.templatetags.states import counted, look
from ingest.models import Rollup
from ingest.pipelines.fleet_overview import (
    MOST_FAILURES,
    Failures,
    Route,
    failures_since,
    rollups_for,
    routes_for,
)
from ingest.pipelines.source_overview import Pair

MOST_ROUTES = 50
MERGED = 0
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Span:
    """A range of time as slots of `seconds`; form: of the slots' names."""

    name: str
    seconds: int
    slots: int
    form: str

    def begins(self, now: datetime) -> list[datetime]:
        """Of each slot, the oldest first. The hour that goes on is the last one; of
        minutes only those that have ended are known."""
        step = self.seconds
        end = int(now.timestamp()) // step * step
        if step == Rollup.HOUR:
            end += step
        moments = range(end - self.slots * step, end, step)
        return [datetime.fromtimestamp(at, now.tzinfo) for at in moments]


SPANS = {
    "1h": Span("1h", Rollup.MINUTE, 60, "%H:%M"),
    "24h": Span("24h", Rollup.HOUR, 24, "%H:%M"),
    "7d": Span("7d", Rollup.HOUR, 168, "%m-%d %H:%M"),
}


@dataclass(frozen=True, slots=True)
class RouteShown:
    """One row. bars: its tables by state. rows, rate: per minute over the range and at
    its end, None where they may not be seen. failures: of a day, as it is shown.
    is_open: whether the source has a page for this person."""

    route: Route
    states: list[tuple[str, int]]
    bars: list[Bar]
    rows: Chart | None
    rate: float | None
    failures: str
    newest: Job | None
    is_open: bool = True

    @property
    def failed_jobs(self) -> str:
        """The filter of the list of jobs that shows them."""
        is_one = self.route.pair[1] != MERGED
        place = {"q": f"lake.{self.route.database}."} if is_one else {}
        return urlencode({"state": FAILED, **place})

    @property
    def summary(self) -> str:
        return ", ".join(counted(name, count) for name, count in self.states)


@dataclass(frozen=True, slots=True)
class RoutesShown:
    """`total` of which `rows` are shown."""

    span: Span
    charts: list[Chart]
    rows: list[RouteShown]
    total: int


@dataclass(slots=True)
class _Slot:
    """All routes of a slot."""

    rows: int = 0
    succeeded: int = 0
    failed: int = 0
    late: int = 0
    bytes: int = 0
    lags: list[float] = field(default_factory=list)
    p95s: list[tuple[float, int]] = field(default_factory=list)

    def add(self, row: Rollup) -> None:
        self.rows += row.rows
        self.succeeded += row.succeeded
        self.failed += row.failed
        self.late += row.late
        self.bytes += row.bytes
        if row.lag_max is not None:
            self.lags.append(row.lag_max)
        if row.lag_p95 is not None:
            self.p95s.append((row.lag_p95, row.tables))


def routes_shown(principal: Principal, span: Span) -> RoutesShown:
    """Those with failures first."""
    seen = _Seen.of(principal, span)
    routes = sorted(seen.routes, key=lambda route: route.pair not in seen.failed)
    slots: dict[datetime, _Slot] = {}
    for row in seen.rollups:
        slots.setdefault(row.at, _Slot()).add(row)
    charts = seen.timeline.charts(slots)
    shown = [seen.row(route, {route.pair}) for route in routes[:MOST_ROUTES]]
    if not principal.is_admin:
        visible = datasources_for(principal).values_list("name", flat=True)
        names = set(visible.filter(name__in={one.route.source for one in shown}))
        shown = [replace(one, is_open=one.route.source in names) for one in shown]
    return RoutesShown(span, charts, shown, len(routes))


def sources_shown(principal: Principal, names: Iterable[str]) -> dict[str, RouteShown]:
    """Of each of these sources that is synced: all its databases as one row."""
    seen = _Seen.of(principal, SPANS["1h"])
    wanted, found = set(names), {}
    for source, routes in groupby(seen.routes, key=attrgetter("source")):
        if source in wanted:
            own = list(routes)
            found[source] = seen.row(_merged(own), {route.pair for route in own})
    return found


def _merged(routes: Sequence[Route]) -> Route:
    counts: Counter[str] = Counter()
    for route in routes:
        counts.update(route.counts)
    moments = [route.oldest for route in routes if route.oldest]
    names = ", ".join(route.database for route in routes)
    if len(routes) == 1:
        return routes[0]
    return replace(
        routes[0],
        pair=(routes[0].pair[0], MERGED),
        database=names,
        counts=counts,
        oldest=min(moments, default=None),
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """What one principal may see of all routes."""

    timeline: _Timeline
    routes: list[Route]
    rollups: list[Rollup]
    by_pair: Mapping[Pair, Sequence[Rollup]]
    failed: Mapping[Pair, Failures]

    @classmethod
    def of(cls, principal: Principal, span: Span) -> _Seen:
        now = timezone.now()
        begins = span.begins(now)
        scope = scope_of(principal)
        rollups = rollups_for(scope, span.seconds, begins[0])
        by_pair: defaultdict[Pair, list[Rollup]] = defaultdict(list)
        for row in rollups:
            by_pair[row.datasource_id, row.database_id].append(row)
        return cls(
            _Timeline(span, begins, now),
            routes_for(scope),
            rollups,
            by_pair,
            failures_since(principal, now - DAY),
        )

    def row(self, route: Route, pairs: Collection[Pair]) -> RouteShown:
        states = sorted(route.counts.items(), key=lambda one: -one[1])
        rows: Counter[datetime] = Counter()
        for pair in pairs:
            for one in self.by_pair.get(pair, ()):
                rows[one.at] += one.rows
        failed = [self.failed[pair] for pair in pairs if pair in self.failed]
        newest = max((one.newest for one in failed), key=_ended, default=None)
        count = sum(one.count for one in failed)
        last = max(rows, default=None)
        return RouteShown(
            route=route,
            states=states,
            bars=shares_of([(look(name).tone, count) for name, count in states]),
            rows=self.timeline.rows(rows),
            rate=self.timeline.rate(last, rows[last]) if last else None,
            failures=_counted(count) if count else "",
            newest=newest,
        )


def _ended(job: Job) -> datetime:
    assert job.finished_at is not None
    return job.finished_at


def _counted(count: int) -> str:
    return f"{count}+" if count >= MOST_FAILURES else figure(count)


@dataclass(frozen=True, slots=True)
class _Timeline:
    span: Span
    begins: list[datetime]
    now: datetime

    def rate(self, at: datetime, rows: int) -> float:
        """Rows a minute in the slot; of the one that goes on, so far."""
        passed = min(self.span.seconds, (self.now - at).total_seconds())
        return rows * 60 / max(passed, 60)

    def rows(self, found: Mapping[datetime, int]) -> Chart | None:
        rates = {at: self.rate(at, rows) for at, rows in found.items()}
        points = [self._point(at, rates) for at in self.begins]
        note = gettext("heights by the square root")
        title = gettext("Rows per minute")
        return chart_of(title, points, shown=_figures, note=note, scale=math.sqrt)

    def charts(self, slots: Mapping[datetime, _Slot]) -> list[Chart]:
        """None at all while nothing is known."""
        sizes = {at: float(slot.bytes) for at, slot in slots.items()}
        found = [
            self.rows({at: slot.rows for at, slot in slots.items()}),
            self._lags(slots),
            self._jobs(slots),
            self._chart(
                gettext("Size of the lake"), size, lambda at: self._point(at, sizes)
            ),
        ]
        return [chart for chart in found if chart]

    def _lags(self, slots: Mapping[datetime, _Slot]) -> Chart | None:
        def point(at: datetime) -> Point:
            slot = slots.get(at)
            if slot is None or not slot.lags:
                return Point(self._name(at), None)
            most, p95 = max(slot.lags), weighted_quantile(slot.p95s, 0.95)
            said = {"max": duration(most), "p95": duration(p95)}
            text = gettext("at most %(max)s, 95 %% of tables %(p95)s") % said
            if slot.late:
                count = slot.late
                late = ngettext("%(count)s table late", "%(count)s tables late", count)
                text = f"{text}, {late % {'count': count}}"
            tone = "warn" if slot.late else "idle"
            return Point(self._name(at), most, tone, part=p95, tip=text)

        note = gettext("grey: largest; full: 95 % of tables; amber: some are late")
        return self._chart(gettext("Lag"), duration, point, note=note)

    def _jobs(self, slots: Mapping[datetime, _Slot]) -> Chart | None:
        def point(at: datetime) -> Point:
            slot = slots.get(at)
            if slot is None:
                return Point(self._name(at), None)
            said = {"good": slot.succeeded, "bad": slot.failed}
            text = gettext("%(good)s succeeded, %(bad)s failed") % said
            total, part = slot.succeeded + slot.failed, slot.failed
            return Point(
                self._name(at), float(total), part=part, part_tone="bad", tip=text
            )

        title = {
            Rollup.MINUTE: gettext("Jobs per minute"),
            Rollup.HOUR: gettext("Jobs per hour"),
        }[self.span.seconds]
        return self._chart(title, _figures, point, note=gettext("red: failed"))

    def _chart(
        self,
        title: str,
        shown: Callable[[float], str],
        point: Callable[[datetime], Point],
        note: str = "",
    ) -> Chart | None:
        points = [point(at) for at in self.begins]
        return chart_of(title, points, shown=shown, note=note)

    def _point(self, at: datetime, found: Mapping[datetime, float]) -> Point:
        return Point(self._name(at), found.get(at))

    def _name(self, at: datetime) -> str:
        return f"{timezone.localtime(at):{self.span.form}}"


def weighted_quantile(values: Iterable[tuple[float, int]], part: float) -> float:
    """Of (value, how often): the least value that `part` of all do not exceed."""
    ordered = sorted(values)
    wanted = part * sum(count for _, count in ordered)
    for value, count in ordered:
        wanted -= count
        if wanted <= 0:
            return value
    return ordered[-1][0] if ordered else 0.0


def _figures(value: float) -> str:
    return figure(round(value))
