"""All lake tables in sight by their health, the worst first.

A fixed number of statements, however many tables there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q, QuerySet
from django.db.models.functions import Coalesce

from catalog.access.policy import Principal
from catalog.access.scope import Reach, in_scope, scope_of
from catalog.models import Table
from catalog.selectors.paging import Window, keyset_window
from frontend.reading.health import TITLES
from frontend.reading.health_charts import FAIR, GOOD, tone_of
from ingest.models import TableHealth

# tables that nobody looked at yet come after those with the best score
UNSEEN = 101
RANK = Coalesce("score", UNSEEN)
_HEAVY = ("facts", "plan", "trend")


@dataclass(frozen=True, slots=True)
class Band:
    """Scores from `first` to `last`; `tone` is a CSS class."""

    name: str
    word: str
    tone: str
    first: int
    last: int


BANDS = (
    Band("bad", f"below {FAIR}", "bad", 0, FAIR - 1),
    Band("fair", f"{FAIR} to {GOOD - 1}", "warn", FAIR, GOOD - 1),
    Band("good", f"{GOOD} to 100", "ok", GOOD, 100),
    Band("unseen", "not checked yet", "idle", UNSEEN, UNSEEN),
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the page's filter says; "" = all."""

    band: str = ""
    code: str = ""
    q: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A table: what costs most, and how much else does."""

    health: TableHealth
    tone: str
    title: str
    reason: str
    more: int


@dataclass(frozen=True, slots=True)
class Worst:
    """Tables from where the last page ended."""

    rows: QuerySet[TableHealth]

    def window(self, *, size: int, after: str, before: str) -> Window[Row]:
        found = keyset_window(
            self.rows,
            order=("rank", "table_id"),
            size=size,
            after=after,
            before=before,
            load=_by_ids,
        )
        return Window([_row(one) for one in found.items], found.before, found.after)


@dataclass(frozen=True, slots=True)
class Fleet:
    """bands: how many tables each of them has, whatever is filtered by them."""

    worst: Worst
    bands: list[tuple[Band, int]]


def wanted_from(get: Callable[[str, str], str]) -> Wanted:
    """What is no choice counts as none."""
    band, code = get("band", ""), get("code", "")
    return Wanted(
        band if band in {one.name for one in BANDS} else "",
        code if code in TITLES else "",
        get("q", "").strip()[:300],
    )


def fleet_for(principal: Principal, wanted: Wanted) -> Fleet:
    rows = in_sight(principal, wanted.q).annotate(rank=RANK)
    return Fleet(Worst(_filtered(rows, wanted)), _bands(rows))


def in_sight(principal: Principal, q: str = "") -> QuerySet[TableHealth]:
    scope = scope_of(principal)
    rows = TableHealth.objects.all()
    if scope.reach is not Reach.ALL:
        rows = rows.filter(table__in=Table.objects.filter(in_scope(scope)))
    if not q:
        return rows
    database, dot, part = q.rpartition(".")
    if dot:
        rows = rows.filter(table__database__name__iexact=database.rpartition(".")[2])
    return rows.filter(table__name__icontains=part)


def _filtered(rows: QuerySet[Any], wanted: Wanted) -> QuerySet[Any]:
    for band in BANDS:
        if band.name == wanted.band:
            rows = rows.filter(rank__range=(band.first, band.last))
    if wanted.code:
        rows = rows.filter(losses__contains=[{"code": wanted.code}])
    return rows


def _by_ids(ids: list[int]) -> list[TableHealth]:
    """These, in this order: only what is shown is read whole."""
    rows = TableHealth.objects.filter(pk__in=ids).annotate(rank=RANK)
    found = rows.select_related("table__database").defer(*_HEAVY).in_bulk()
    return [found[one] for one in ids if one in found]


def _bands(rows: QuerySet[Any]) -> list[tuple[Band, int]]:
    counts = rows.aggregate(
        **{
            band.name: Count("pk", filter=Q(rank__range=(band.first, band.last)))
            for band in BANDS
        }
    )
    return [(band, counts[band.name]) for band in BANDS]


def _row(health: TableHealth) -> Row:
    first = health.losses[0] if health.losses else {}
    return Row(
        health,
        tone_of(health.score),
        TITLES.get(first.get("code", ""), ""),
        first.get("reason", ""),
        max(0, len(health.losses) - 1),
    )
