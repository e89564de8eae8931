"""All lake tables in sight by their health, the worst first."""

from __future__ import annotations

from django.db.models import F, QuerySet

from catalog.access.policy import Principal
from catalog.models import Table
from catalog.selectors import TableFilter, tables_for


def fleet_for(principal: Principal, q: str) -> QuerySet[Table]:
    """Lake tables in sight that were loaded, the worst first; unseen ones last."""
    rows = tables_for(principal, TableFilter(kind=Table.LAKE, q=q))
    order = (F("health__score").asc(nulls_last=True), F("health__table"))
    known = rows.filter(health__isnull=False).select_related("health")
    return known.order_by(*order)
