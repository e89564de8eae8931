"""Health: all lake tables, the worst first; and one table's page. Starts no Spark."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from catalog.models import Table
from catalog.selectors import table_for
from core.errors import NotFound, SluiceError
from frontend.pages import PageRequest, cut, page
from frontend.reading.fleet import fleet_for
from frontend.reading.health import health_for, open_alerts
from frontend.reading.health_charts import tone_of
from frontend.reading.tables import feed_for
from ingest.maintenance.repairs import Savepoint, savepoints_of


@page
@require_safe
def fleet(request: PageRequest) -> HttpResponse:
    q = request.GET.get("q", "").strip()[:300]
    found = cut(request, fleet_for(request.principal, q))
    rows = [(table, _score(table)) for table in found.items]
    context = {
        "tables": found,
        "rows": [(table, score, tone_of(score)) for table, score in rows],
        "q": q,
    }
    return render(request, "frontend/health.html", context)


@page
@require_safe
def table_health(request: PageRequest, table_id: int) -> HttpResponse:
    table = table_for(request.principal, table_id)
    if table.kind != Table.LAKE:
        raise NotFound("only tables of the lake have files to look at")
    feed = feed_for(request.principal, table)
    context = {
        "table": table,
        "health": health_for(table, [*feed.actions, *feed.repairs]),
        "repairs": {action.name: action for action in feed.repairs},
        "savepoints": _savepoints(table),
        "alerts": open_alerts(request.principal, table),
        "here": "health",
    }
    return render(request, "frontend/tables/health.html", context)


def _savepoints(table: Table) -> list[Savepoint]:
    """None while the lake cannot be read: the page says why anyway."""
    try:
        return savepoints_of(table)
    except SluiceError:
        return []


def _score(table: Table) -> int | None:
    health = getattr(table, "health", None)
    return health.score if health else None
