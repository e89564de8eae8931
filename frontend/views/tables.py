"""Tables: the list, one table's page and its parts. What may be seen is decided by
the catalog's selectors.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import F, OrderBy
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from catalog.access.enforcement import may_register, require
from catalog.access.grants import grants_of
from catalog.access.policy import Principal, Privilege
from catalog.models import Table
from catalog.names import LAKE
from catalog.selectors import (
    ByName,
    Found,
    Ordered,
    SchemaStep,
    TableFilter,
    schema_steps,
    schema_versions,
    table_for,
    tables_for,
)
from catalog.selectors.tables import securable_of
from core.errors import SluiceError
from core.jobs import ACTIVE
from frontend.connect import snippets_for
from frontend.pages import (
    KeyedPage,
    NumberedPage,
    PageRequest,
    keyed_page,
    numbered_page,
    page,
)
from frontend.reading.commits import commits_of
from frontend.reading.health import open_alerts
from frontend.reading.jobs import verified_of
from frontend.reading.tables import pipeline_for
from ingest.alerts.rules import STALLED
from ingest.alerts.store import open_on
from ingest.models.states import APPROVED, MOVING, REMOVING
from ingest.pipelines.job_selectors import newest_on_table
from ingest.pipelines.sampling import sample_for
from ingest.pipelines.table_status import standings

JOBS_SHOWN = 5
STATES = (
    "LIVE", "CATCHING_UP", "SNAPSHOTTING", "RESYNCING", "APPROVED", "PAUSED",
    "NEEDS_RESYNC", "FAILED", "REMOVING", "RETIRED",
)  # fmt: skip
SAMPLE_ROWS = 20
STEPS_SHOWN = 20
CHANGING = MOVING | {APPROVED, REMOVING}
SORTS: dict[str, tuple[str | OrderBy, ...]] = {
    "name": ("name", "id"),
    "-commit": (F("last_commit_at").desc(nulls_last=True), "-id"),
    "lag": ("caught_up_at", "id"),
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """The filter of the list as the URL carries it."""

    q: str
    where: str
    status: str
    sort: str

    @classmethod
    def of(cls, request: PageRequest) -> Wanted:
        get = request.GET.get
        sort = get("sort", "name")
        return cls(
            q=get("q", "").strip()[:300],
            where=get("where", LAKE),
            status=get("status", ""),
            sort=sort if sort in SORTS else "name",
        )

    def page_of(self, request: PageRequest) -> NumberedPage | KeyedPage:
        kind = self.where if self.where in {Table.LAKE, Table.SOURCE} else ""
        wanted = TableFilter(kind=kind, status=self.status, q=self.q)
        if self.q and self.sort == "name":
            return numbered_page(request, Found(request.principal, wanted))
        found = tables_for(request.principal, wanted)
        if self.sort == "name":
            return keyed_page(request, ByName(found))
        return numbered_page(request, Ordered(found.order_by(*SORTS[self.sort])))


@page
@require_safe
def table_list(request: PageRequest) -> HttpResponse:
    wanted = Wanted.of(request)
    found = wanted.page_of(request)
    context = {
        "wanted": wanted,
        "tables": found,
        "standings": standings(table.pk for table in found.items),
        "is_moving": any(table.status in CHANGING for table in found.items),
        "states": STATES,
        "is_filtered": bool(wanted.q or wanted.status),
        "can_add": _may_add(request.principal),
    }
    part = request.htmx and request.htmx.target == "table-list"
    template = "tables/rows.html" if part else "tables/list.html"
    return render(request, f"frontend/{template}", context)


@page
@require_safe
def table_page(request: PageRequest, table_id: int) -> HttpResponse:
    table = table_for(request.principal, table_id)
    context = {
        "table": table,
        "columns": table.columns.all(),
        "history": _history(table),
        "snippets": snippets_for(request, table),
        "verified": verified_of(request.principal, table.pk),
        **_moving(request, table),
    }
    return render(request, "frontend/tables/table.html", context)


@page
@require_safe
def table_state(request: PageRequest, table_id: int) -> HttpResponse:
    """The part of the table page that moves."""
    table = table_for(request.principal, table_id)
    context = {"table": table, **_moving(request, table)}
    return render(request, "frontend/tables/state.html", context)


@page
@require_safe
def table_commits(request: PageRequest, table_id: int) -> HttpResponse:
    table = table_for(request.principal, table_id)
    context = {"table": table, "commits": commits_of(table)}
    return render(request, "frontend/tables/commits.html", context)


@page
@require_safe
def table_sample(request: PageRequest, table_id: int) -> HttpResponse:
    table = table_for(request.principal, table_id)
    require(request.principal, Privilege.SELECT, securable_of(table))
    context: dict[str, object] = {"table": table}
    try:
        sample = sample_for(request.principal.name, table, limit=SAMPLE_ROWS)
        columns = [{"name": name, "type": kind} for name, kind in sample.columns]
        context |= {"columns": columns, "rows": sample.rows}
    except SluiceError as error:
        context["error"] = error
    return render(request, "frontend/tables/sample.html", context)


def _may_add(principal: Principal) -> bool:
    """Some source's tables."""
    held = grants_of(principal)
    return may_register(principal) or any(
        one.privilege == Privilege.MANAGE for one in held
    )


def _moving(request: PageRequest, table: Table) -> dict[str, object]:
    jobs = newest_on_table(request.principal, table.pk, limit=JOBS_SHOWN)
    is_moving = table.status in MOVING or any(job.state in ACTIVE for job in jobs)
    return {
        "pipeline": pipeline_for(request.principal, table),
        "jobs": jobs,
        "stalled": open_on(table.pk, {STALLED}).first(),
        "alerts": open_alerts(request.principal, table),
        "standing": standings([table.pk]).states.get(table.pk, table.status),
        "is_moving": is_moving,
        "poll_seconds": 2 if is_moving else 10,
    }


def _history(table: Table) -> list[SchemaStep]:
    """The newest steps; nothing while there is but one version."""
    if table.schema_version < 2:
        return []
    newest = schema_versions(table.pk).order_by("-version")
    return schema_steps(list(newest.values_list("pk", flat=True)[:STEPS_SHOWN]))
