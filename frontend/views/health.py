"""Health: all lake tables, the worst first; and one table's page. Starts no Spark."""

from __future__ import annotations

from dataclasses import replace

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext

from catalog.access.enforcement import decision_for, require
from catalog.access.policy import Privilege
from catalog.selectors.tables import securable_of
from frontend.pages import PageRequest, attempt, keyed_page, page
from frontend.reading.fleet import bands_of, row_of, wanted_from
from frontend.reading.health import TITLES, health_for, open_alerts
from frontend.reading.policy import policy_rows
from frontend.reading.tables import pipeline_for
from frontend.views.table_page import lake_table
from ingest.maintenance.health_collector import look_now
from ingest.pipelines.table_status import standings


@page()
def fleet(request: PageRequest) -> HttpResponse:
    wanted = wanted_from(request.principal, request.GET.get)
    found = keyed_page(request, wanted)
    context = {
        "wanted": wanted,
        "bands": bands_of(wanted),
        "tables": replace(found, items=list(map(row_of, found.items))),
        "standings": standings(health.table_id for health in found.items),
        "titles": TITLES.items(),
    }
    return render(request, "frontend/health.html", context)


@page()
def table_health(request: PageRequest, table_id: int) -> HttpResponse:
    table = lake_table(request, table_id)
    pipeline = pipeline_for(request.principal, table)
    context = {
        "table": table,
        "health": health_for(table, pipeline),
        "may_check": pipeline.may_operate and table.path,
        "repairs": {action.name: action for action in pipeline.repairs},
        "rests": standings([table.pk]).resting.get(table.pk, ""),
        "policy": policy_rows(table),
        "manages": decision_for(
            request.principal, Privilege.MANAGE, securable_of(table)
        ).allowed,
        "alerts": open_alerts(request.principal, table),
        "here": "health",
    }
    return render(request, "frontend/tables/health.html", context)


@page("POST")
def check_now(request: PageRequest, table_id: int) -> HttpResponse:
    """Looks at the files while the page waits: names and commits only are read."""
    table = lake_table(request, table_id)
    require(request.principal, Privilege.OPERATE, securable_of(table))
    attempt(request, gettext("Checked just now."), lambda: look_now(table))
    return redirect("frontend:table-health", table_id)
