"""One table's page: a tab is an address of its own, read in a fixed number of
statements. What moves on the overview, and what is read of the lake, are parts.
"""

from __future__ import annotations

from contextlib import suppress

from django.db import transaction
from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext

from catalog.access.effective import explained, for_the_bound
from catalog.access.enforcement import decision_for, require, require_admin
from catalog.access.existence import require_columns
from catalog.access.grants import grant
from catalog.access.policy import Privilege, Securable
from catalog.access.rules import rows_on
from catalog.models import Grant, Table
from catalog.names import LAKE
from catalog.selectors.history import SchemaStep, schema_steps, schema_versions
from catalog.selectors.lookups import table_for
from catalog.selectors.tables import securable_of
from core.errors import InvalidRequest, NotFound, SluiceError
from core.sentences import Sentence
from frontend.connect import snippets_for
from frontend.forms.people import MEANINGS, ROLE_MEANINGS
from frontend.pages import PageRequest, attempt, page
from frontend.reading.activity import rows_of
from frontend.reading.commits import Commits, commits_of
from frontend.reading.freshness import age_charts
from frontend.reading.health import open_alerts
from frontend.reading.jobs import verified_of
from frontend.reading.people import MOST_PICKED, people_like
from frontend.reading.tables import figures_of, pipeline_for
from frontend.views.jobs import activity_shown
from ingest.alerts.rules import STALLED
from ingest.alerts.store import open_on
from ingest.models.states import MOVING
from ingest.pipelines.activity import Activity
from ingest.pipelines.job_selectors import JobFilter
from ingest.pipelines.sampling import sample_for
from ingest.pipelines.table_status import standings

SHOWN = 5
ROWS_SHOWN = 20
SAMPLE_ROWS = 20
STEPS_SHOWN = 20
MOST_GRANTS = 200


def lake_table(request: PageRequest, table_id: int) -> Table:
    """For its viewers; NotFound for a table of a source."""
    table = table_for(request.principal, table_id)
    if table.kind != Table.LAKE:
        raise NotFound(Sentence("only tables of the lake have this page"))
    return table


@page()
def overview(request: PageRequest, table_id: int) -> HttpResponse:
    table = table_for(request.principal, table_id)
    if table.kind != Table.LAKE:
        return _source_table(request, table)
    context = {"table": table, "here": "", **_moving(request, table)}
    return render(request, "frontend/tables/overview.html", context)


def _source_table(request: PageRequest, table: Table) -> HttpResponse:
    """With the lake table that it feeds, for who may see that one."""
    sync = getattr(table, "sync", None) or {}
    synced_as = None
    with suppress(NotFound):
        if sync.get("lake_table"):
            synced_as = table_for(request.principal, sync["lake_table"])
    context = {"table": table, "synced_as": synced_as, "columns": table.columns.all()}
    return render(request, "frontend/tables/source_table.html", context)


@page()
def state(request: PageRequest, table_id: int) -> HttpResponse:
    """The part of the overview that moves."""
    table = lake_table(request, table_id)
    context = {"table": table, **_moving(request, table)}
    return render(request, "frontend/tables/state.html", context)


@page()
def data(request: PageRequest, table_id: int) -> HttpResponse:
    """Rows come as a part of their own; with `?rows` within the page."""
    table = lake_table(request, table_id)
    may = decision_for(request.principal, Privilege.SELECT, securable_of(table))
    context = {
        "table": table,
        "here": "data",
        "pipeline": pipeline_for(request.principal, table),
        "may_select": may.allowed,
    }
    if may.allowed and "rows" in request.GET:
        context |= {"has_rows": True, **_sample(request, table)}
    return render(request, "frontend/tables/data.html", context)


@page()
def sample(request: PageRequest, table_id: int) -> HttpResponse:
    table = table_for(request.principal, table_id)
    require(request.principal, Privilege.SELECT, securable_of(table))
    context = {"table": table, **_sample(request, table)}
    return render(request, "frontend/tables/sample.html", context)


@page()
def columns(request: PageRequest, table_id: int) -> HttpResponse:
    table = lake_table(request, table_id)
    context = {
        "table": table,
        "here": "columns",
        "columns": table.columns.all(),
        "history": _history(table),
    }
    return render(request, "frontend/tables/columns_page.html", context)


@page()
def activity(request: PageRequest, table_id: int) -> HttpResponse:
    """Commits come as a part of their own, or within the page."""
    return _activity_page(request, lake_table(request, table_id))


def _activity_page(
    request: PageRequest, table: Table, found: Commits | None = None
) -> HttpResponse:
    context = {
        "table": table,
        "here": "activity",
        **activity_shown(request, _activity(request, table), size=ROWS_SHOWN),
        "commits": found,
    }
    if request.htmx and request.htmx.target == "job-list":
        return render(request, "frontend/jobs/rows.html", context)
    return render(request, "frontend/tables/activity.html", context)


@page()
def commits(request: PageRequest, table_id: int) -> HttpResponse:
    table = lake_table(request, table_id)
    found = commits_of(table, is_whole=bool(request.GET.get("all")))
    if not request.htmx:
        return _activity_page(request, table, found)
    context = {"table": table, "commits": found}
    return render(request, "frontend/tables/commits.html", context)


@page("GET", "POST")
def access(request: PageRequest, table_id: int) -> HttpResponse:
    """What the reader may do here; for administrators who else may, and a form."""
    table = lake_table(request, table_id)
    on = securable_of(table)
    if request.method == "POST":
        require_admin(request.principal)
        attempt(request, gettext("Access given."), lambda: _give(request, on))
        return redirect("frontend:table-access", table_id)
    found = for_the_bound(explained(request.principal, on))
    context = {
        "table": table,
        "here": "access",
        "found": found,
        "rights": found.privileges,
    }
    if request.principal.is_admin:
        covering = Q(database="") | Q(database=on.database, table__in=("", on.table))
        context |= {
            "on": on,
            "grants": Grant.objects.filter(covering, datasource=LAKE).order_by(
                "principal_kind", "principal_name", "id"
            )[:MOST_GRANTS],
            "rules": rows_on(on)[:MOST_GRANTS],
            "people": people_like(""),
            "columns": table.columns.values_list("name", flat=True),
            "privileges": [*MEANINGS.items(), *ROLE_MEANINGS.items()],
        }
    return render(request, "frontend/tables/access.html", context)


def _give(request: PageRequest, on: Securable) -> None:
    """What the form says to all who are ticked, or to none of them."""
    people = request.POST.getlist("principal")
    columns = request.POST.getlist("column")
    if not people:
        raise InvalidRequest(gettext("Tick at least one user or group."))
    if len(people) > MOST_PICKED:
        most = gettext("Tick at most %(most)s users and groups at once.")
        raise InvalidRequest(most % {"most": MOST_PICKED})
    require_columns(on, columns)
    with transaction.atomic():
        for principal in people:
            grant(
                principal=principal,
                privilege=request.POST.get("privilege", ""),
                on=str(on),
                columns=columns,
                by=request.principal.name,
            )


@page()
def connect(request: PageRequest, table_id: int) -> HttpResponse:
    table = lake_table(request, table_id)
    context = {
        "table": table,
        "here": "connect",
        "snippets": snippets_for(request, table),
    }
    return render(request, "frontend/tables/connect.html", context)


def _moving(request: PageRequest, table: Table) -> dict[str, object]:
    newest = rows_of(request.principal, _activity(request, table)[0:SHOWN])
    is_moving = table.status in MOVING or any(row.is_moving for row in newest)
    pipeline = pipeline_for(request.principal, table)
    return {
        "pipeline": pipeline,
        "ages": age_charts(pipeline.row, timezone.now()) if pipeline.row else [],
        "figures": figures_of(table),
        "newest": newest,
        "stalled": open_on(table.pk, {STALLED}).first(),
        "alerts": open_alerts(request.principal, table),
        "verified": verified_of(request.principal, table.pk),
        "standing": standings([table.pk]).states.get(table.pk, table.status),
        "is_moving": is_moving,
        "poll_seconds": 2 if is_moving else 10,
    }


def _activity(request: PageRequest, table: Table) -> Activity:
    jobs = JobFilter(table=str(table.pk))
    is_quiet = bool(request.GET.get("quiet"))
    return Activity(request.principal, jobs, table, is_quiet=is_quiet)


def _sample(request: PageRequest, table: Table) -> dict[str, object]:
    try:
        found = sample_for(request.principal.name, table, limit=SAMPLE_ROWS)
    except SluiceError as error:
        return {"error": error}
    return {"columns": found.columns, "rows": found.rows}


def _history(table: Table) -> list[SchemaStep]:
    """The newest steps; nothing while there is but one version."""
    if table.schema_version < 2:
        return []
    newest = schema_versions(table.pk).order_by("-version")
    return schema_steps(list(newest.values_list("pk", flat=True)[:STEPS_SHOWN]))
