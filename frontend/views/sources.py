"""Sources: the list, one source's page, its test and discovery."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext

from catalog.access.enforcement import may_on, may_register, require
from catalog.access.policy import Privilege, Securable
from catalog.discovery.services import DISCOVER, TEST, start_discovery, start_test
from catalog.models import Datasource, Table
from catalog.names import LAKE
from catalog.schema.limits import LIMITS
from catalog.selectors.contents import job_without_contents, without_contents
from catalog.selectors.listing import ByName, Found
from catalog.selectors.tables import (
    TableFilter,
    databases_for,
    datasource_for,
    datasources_for,
    tables_for,
)
from catalog.sources.registry import footprint_of
from core.errors import NotFound
from core.jobs import SUCCEEDED
from core.sentences import Sentence
from frontend.pages import PageRequest, attempt, keyed_page, numbered_page, page
from frontend.reading.pipelines import capture_of_source, pipelines_of_source
from frontend.reading.routes import sources_shown
from frontend.reading.sources import UNMET, steps_of, stored_steps
from ingest.models.states import MOVING
from ingest.pipelines.followers import start_capture, stop_capture
from ingest.pipelines.job_selectors import newest_on_source
from ingest.pipelines.selectors import plans_with_open_tables
from ingest.pipelines.source_commands import failed_tables, resume_failed
from ingest.pipelines.source_overview import tables_synced_from, warnings_of
from ingest.pipelines.table_status import failing_by_source, in_state, standings

SHOWN_PLANS = 20
PICK = "pick"  # where a source that was added just now goes on
SHOWN_WARNINGS = 10
PIPELINE = "frontend:source-pipeline"


def source_named(request: PageRequest, name: str) -> Datasource:
    """The source of that name, for its viewers; the lake is not a source."""
    source = datasource_for(request.principal, name)
    if source.is_lake:
        raise NotFound(Sentence("there is no such source"))
    return source


@page()
def source_list(request: PageRequest) -> HttpResponse:
    wanted = {
        name: request.GET.get(name, "").strip()[:160] for name in ("q", "tag", "owner")
    }
    rows = datasources_for(request.principal, **wanted).exclude(kind=LAKE)
    found = numbered_page(request, rows)
    shown = without_contents(request.principal)
    ids = [source.pk for source in found.items]
    context = {
        "sources": replace(found, items=[shown(source) for source in found.items]),
        "failing": failing_by_source(request.principal, ids),
        "synced": sources_shown(request.principal, [one.name for one in found.items]),
        "can_register": may_register(request.principal),
        "wanted": wanted,
        "is_filtered": any(wanted.values()),
    }
    return render(request, "frontend/sources/list.html", context)


@page()
def source_page(request: PageRequest, name: str) -> HttpResponse:
    source = source_named(request, name)
    q = request.GET.get("q", "").strip()[:300]
    database = request.GET.get("database", "")
    wanted = TableFilter(source.name, database, kind=Table.SOURCE, q=q)
    # first: where discovery has ended, the tables below are those that it found
    work = _work(request, source)
    if work["goes_on"]:
        return redirect("frontend:onboard", source.name)
    # within one database, or across all: an index has either order
    tables = (
        numbered_page(request, Found(request.principal, wanted))
        if q
        else keyed_page(request, ByName(tables_for(request.principal, wanted)))
    )
    context = {
        "source": source,
        "wanted": wanted,
        "tables": tables,
        "databases": databases_for(request.principal, source.name)[:1000],
    }
    if request.htmx and request.htmx.target == "source-tables":
        return render(request, "frontend/sources/tables.html", context)
    context["failed"] = failed_tables(request.principal, source).count()
    readers = int(source.options.get("max_parallel_reads") or 2)
    footprint = footprint_of(source.kind, readers)
    context |= work | {"limits": LIMITS, "footprint": footprint}
    return render(request, "frontend/sources/source.html", context)


@page()
def source_work(request: PageRequest, name: str) -> HttpResponse:
    """The part that moves; when discovery ends, the whole page is read again."""
    source = source_named(request, name)
    work = _work(request, source)
    response = render(request, "frontend/sources/work.html", {"source": source, **work})
    if work["goes_on"]:
        response["HX-Redirect"] = reverse("frontend:onboard", args=[source.name])
    elif work["is_discovered"]:
        response["HX-Refresh"] = "true"
    return response


def _operate(
    request: PageRequest,
    name: str,
    done: str,
    work: Callable[[Datasource], object],
    *,
    back: str = "frontend:source",
) -> HttpResponse:
    """A command on the source by who may operate it, then its page."""
    source = source_named(request, name)
    require(request.principal, Privilege.OPERATE, Securable(source.name))
    attempt(request, done, lambda: work(source))
    return redirect(back, name)


@page("POST")
def test_source(request: PageRequest, name: str) -> HttpResponse:
    work = functools.partial(start_test, by=request.principal.name)
    return _operate(request, name, gettext("Connection test requested."), work)


@page("POST")
def discover(request: PageRequest, name: str) -> HttpResponse:
    work = functools.partial(start_discovery, by=request.principal.name)
    return _operate(request, name, gettext("Discovery requested."), work)


@page("POST")
def resume_tables(request: PageRequest, name: str) -> HttpResponse:
    """Every failed table of it: after a password was put right, for example."""
    source = source_named(request, name)
    require(request.principal, Privilege.OPERATE, Securable(source.name))
    resumed, left = resume_failed(request.principal, source)
    texts = {"resumed": resumed, "left": left}
    said = gettext("%(resumed)s failed tables resumed, %(left)s not.") % texts
    (messages.error if left else messages.success)(request, said)
    return redirect("frontend:source", name)


@page("POST")
def start_reading(request: PageRequest, name: str) -> HttpResponse:
    done = gettext("Reading requested.")
    return _operate(request, name, done, start_capture, back=PIPELINE)


@page("POST")
def begin_anew(request: PageRequest, name: str) -> HttpResponse:
    done = gettext("Reading starts over; resync its tables.")
    work = functools.partial(start_capture, begin_anew=True)
    return _operate(request, name, done, work, back=PIPELINE)


@page("POST")
def stop_reading(request: PageRequest, name: str) -> HttpResponse:
    done = gettext("Reading of its log stopped.")
    return _operate(request, name, done, stop_capture, back=PIPELINE)


@page()
def pipeline_page(request: PageRequest, name: str) -> HttpResponse:
    """What is carried from a source: its overview moves, its tables are paged."""
    source = source_named(request, name)
    context: dict[str, object] = {"source": source}
    target = request.htmx.target if request.htmx else ""
    if target != "table-list":
        plans = plans_with_open_tables(request.principal).filter(datasource=source)
        context["pipeline"] = pipelines_of_source(request.principal, source)
        context["capture"] = capture_of_source(request.principal, source)
        context["may"] = may_on(request.principal, Securable(source.name))
        context["plans"] = plans[:SHOWN_PLANS]
    if not target:
        carried = tables_synced_from(request.principal, source)
        context["warnings"] = warnings_of(carried, SHOWN_WARNINGS)
    if target == "pipeline-live":
        return render(request, "frontend/sources/pipeline_live.html", context)
    status = request.GET.get("status", "")
    rows = tables_synced_from(request.principal, source).order_by("name", "id")
    found = numbered_page(request, in_state(rows, status) if status else rows)
    context |= {
        "tables": found,
        "standings": standings(table.pk for table in found.items),
        "status": status,
        "is_filtered": bool(status),
        "is_moving": any(table.status in MOVING for table in found.items),
        # its numbers stand below others of the same tables, which are read anew
        "is_live": True,
    }
    part = target == "table-list"
    template = "tables/rows.html" if part else "sources/pipeline.html"
    return render(request, f"frontend/{template}", context)


def _work(request: PageRequest, source: Datasource) -> dict[str, object]:
    job = newest_on_source(request.principal, source.pk)
    if job is not None and job.is_finished:
        # it may have ended after `source` was read
        source.refresh_from_db()
    source = without_contents(request.principal)(source)
    job = job_without_contents(request.principal)(job) if job else None
    is_moving = job is not None and not job.is_finished
    then = PICK if request.GET.get("then") == PICK else ""
    has_found = job is not None and job.kind == DISCOVER and job.state == SUCCEEDED
    is_test = job is not None and job.kind == TEST and is_moving
    steps = steps_of(job) if job and is_test else stored_steps(source)
    is_shown = job is not None and (is_moving or job.error_message)
    if job is not None and job.kind == TEST and not is_moving:
        is_shown = False  # its steps say all
    is_open = not is_moving and any(step.state in UNMET for step in steps)
    return {
        "job": job if is_shown else None,
        "steps": steps,
        "as_of": source.tested_at if is_open else None,
        "may": may_on(request.principal, Securable(source.name)),
        "is_moving": is_moving,
        "then": then,
        "goes_on": bool(then) and has_found,
        "is_discovered": bool(job and job.kind == DISCOVER and not is_moving),
    }
