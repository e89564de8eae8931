"""Lake tables by their health, the worst first; which scores are good and which bad.

A fixed number of statements, however many tables there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q, QuerySet
from django.db.models.functions import Coalesce

from catalog.access.policy import Principal
from catalog.access.scope import Reach, in_scope, scope_of
from catalog.models import Table
from catalog.selectors.paging import Window, keyset_window
from ingest.models import TableHealth

GOOD, FAIR = 90, 70
SEVERE = 25  # points that an issue costs
# tables without a check come after those with the best score
UNCHECKED = 101
RANK = Coalesce("score", UNCHECKED)
_HEAVY = ("facts", "plan", "trend")


@dataclass(frozen=True, slots=True)
class Band:
    """Scores from `first` to `last`."""

    name: str
    first: int
    last: int


BANDS = (
    Band("bad", 0, FAIR - 1),
    Band("fair", FAIR, GOOD - 1),
    Band("good", GOOD, 100),
    Band("unseen", UNCHECKED, UNCHECKED),
)


def band_of(score: int | None) -> Band:
    rank = UNCHECKED if score is None else score
    return next(band for band in BANDS if band.first <= rank <= band.last)


def healths_for(principal: Principal, q: str = "") -> QuerySet[TableHealth]:
    """Of tables they may see. q: part of a name, or `database.part`."""
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


@dataclass(frozen=True, slots=True)
class HealthList:
    """band: name of one of BANDS. code: of an issue. "" = all."""

    principal: Principal
    q: str = ""
    band: str = ""
    code: str = ""

    def window(self, *, size: int, after: str, before: str) -> Window[TableHealth]:
        """Tables from where the last page ended; only what is shown is read whole."""
        rows = self._ranked()
        for band in BANDS:
            if band.name == self.band:
                rows = rows.filter(rank__range=(band.first, band.last))
        if self.code:
            rows = rows.filter(issues__contains=[{"code": self.code}])
        return keyset_window(
            rows,
            order=("rank", "table_id"),
            size=size,
            after=after,
            before=before,
            load=_by_ids,
        )

    def counts(self) -> dict[str, int]:
        """How many tables each band has, whatever is filtered by them."""
        found: dict[str, int] = self._ranked().aggregate(
            **{
                band.name: Count("pk", filter=Q(rank__range=(band.first, band.last)))
                for band in BANDS
            }
        )
        return found

    def _ranked(self) -> QuerySet[Any]:
        return healths_for(self.principal, self.q).annotate(rank=RANK)


def _by_ids(ids: list[int]) -> list[TableHealth]:
    """These, in this order."""
    rows = TableHealth.objects.filter(pk__in=ids).annotate(rank=RANK)
    found = rows.select_related("table__database").defer(*_HEAVY).in_bulk()
    return [found[one] for one in ids if one in found]
