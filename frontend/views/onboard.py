"""Choose what to sync: by pattern or from the list. Ends in a stored plan."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils import timezone

from catalog.access import audit
from catalog.access.enforcement import require
from catalog.access.policy import Privilege, Securable
from catalog.discovery.choosing import Search, counts_of, names_of, passed_over, why_not
from catalog.discovery.store import NOT_SYNCED
from catalog.models import Datasource, Table
from catalog.selectors.tables import databases_for
from core.errors import SluiceError
from frontend.forms.onboarding import OnboardForm
from frontend.forms.schedules import schedule_of
from frontend.pages import PageRequest, numbered_page, page
from frontend.reading.schedules import schedule_words
from frontend.templatetags.figures import rows_of, size
from frontend.views.sources import source_named
from ingest.api.planning_places import planning_place
from ingest.models import Onboarding
from ingest.pipelines.drafting import plan_onboarding
from ingest.pipelines.onboarding import start_onboarding
from ingest.pipelines.policies.schedule import next_runs
from ingest.pipelines.requests import parse_request

RUNS = 3
STRETCH = 200


@page("GET", "POST")
def pick_tables(request: PageRequest, name: str) -> HttpResponse:
    source = _manageable(request, name)
    if request.htmx and request.htmx.target == "pick-list":
        context = _rows(request, source)
        return render(request, "frontend/onboarding/pick_rows.html", context)
    initial: dict[str, Any] = {"include": request.GET.get("include", "")}
    initial |= {"capture": "", "when": "every", "every_seconds": 30}
    form = OnboardForm(request.POST or None, initial=initial)
    error: SluiceError | None = None
    if request.method == "POST":
        is_whole = form.is_valid()
        asked = form.request_data(source.name, _all_matching(request, source))
        try:
            if is_whole:
                row = _start(request, source, asked)
                return redirect("frontend:onboarding", row.pk)
            if asked["include"]:
                wanted = parse_request(asked)
                with planning_place(request.principal.name, wanted):
                    plan_onboarding(wanted, principal=request.principal)
        except SluiceError as refused:
            error = refused
    is_pointed = error is not None and form.point_at(error.facts.get("errors"))
    context = {
        "source": source,
        "form": form,
        "error": None if is_pointed else error,
        "hint": error.hint if error and is_pointed else "",
        "is_onboarded": error is not None and _is_onboarded(error),
        "kept": _kept(request),
        "databases": databases_for(request.principal, name)[:1000],
        **_rows(request, source),
    }
    return render(request, "frontend/onboarding/pick.html", context)


def _is_onboarded(error: SluiceError) -> bool:
    """Whether it is about tables that have a pipeline already, alone or too."""
    errors = error.facts.get("errors")
    said = [str(one["detail"]) for one in errors] if isinstance(errors, list) else []
    return any("onboarded already" in text for text in (error.message, *said))


def _start(
    request: PageRequest, source: Datasource, asked: dict[str, Any]
) -> Onboarding:
    is_search = bool(request.POST.get("all_matching"))
    wanted = parse_request(asked)
    with planning_place(request.principal.name, wanted):
        row = start_onboarding(
            wanted,
            principal=request.principal,
            passed_over=passed_over(_searched(request, source)) if is_search else (),
        )
    audit.record("onboarding.start", on=source.name, is_approved=False)
    return row


# what the picker's script sends for "all of this search"
_ALL = (
    "all_matching",
    "matching_q",
    "matching_database",
    "matching_free",
    "unselected",
)


def _kept(request: PageRequest) -> dict[str, str]:
    """What was chosen by a search, so that an error does not undo it."""
    if not request.POST.get("all_matching"):
        return {}
    return {name: request.POST.get(name, "") for name in _ALL}


@page()
def pick_stretch(request: PageRequest, name: str) -> HttpResponse:
    """The list's rows from `offset`; with the counts of the search when asked."""
    source = _manageable(request, name)
    rows = Search.of(request.GET).rows(request.principal, source.name)
    given = request.GET.get("offset", "0")
    offset = int(given[:7]) if given.isascii() and given.isdigit() else 0
    found: dict[str, object] = {"offset": offset, "items": stretch_of(rows, offset)}
    if request.GET.get("count"):
        found |= counts_of(rows)
    return JsonResponse(found)


@page()
def describe_schedule(request: PageRequest) -> HttpResponse:
    """What a schedule means, in words, and when it runs next."""
    context: dict[str, object] = {"stays": request.GET.get("when") == ""}
    try:
        schedule = schedule_of(request.GET)
    except SluiceError as refused:
        context["error"] = refused
    else:
        context |= {
            "words": schedule_words(schedule) if schedule else "",
            "runs": next_runs(schedule, timezone.now(), RUNS),
        }
    return render(request, "frontend/onboarding/schedule.html", context)


def _manageable(request: PageRequest, name: str) -> Datasource:
    source = source_named(request, name)
    require(request.principal, Privilege.MANAGE, Securable(name))
    return source


def _rows(request: PageRequest, source: Datasource) -> dict[str, object]:
    """A page of the list for browsers that run no scripts of ours."""
    wanted = Search.of(request.GET)
    rows = wanted.rows(request.principal, source.name)
    found = numbered_page(request, rows, size=25)
    for table in found.items:
        table.cannot = why_not(table) if table.status in NOT_SYNCED else None
    return {"wanted": wanted, "tables": found}


def _all_matching(request: PageRequest, source: Datasource) -> list[str]:
    """Names of all tables of the search, when that was chosen."""
    if not request.POST.get("all_matching"):
        return []
    without = set(request.POST.get("unselected", "").splitlines())
    return names_of(_searched(request, source), without=without)


def _searched(request: PageRequest, source: Datasource) -> QuerySet[Table]:
    return Search.of(request.POST, "matching_").rows(request.principal, source.name)


def stretch_of(rows: QuerySet[Table], offset: int) -> list[dict[str, Any]]:
    """`STRETCH` tables from `offset`, as the list shows them."""
    return [_item(table) for table in rows[offset : offset + STRETCH]]


def _item(table: Table) -> dict[str, Any]:
    return {
        "database": table.database.name,
        "name": table.name,
        "comment": table.comment[:200],
        "rows": rows_of(table),
        "size": size(table.estimated_bytes),
        "carried": getattr(table, "lake_table", "") or "",
        "cannot": table.status_reason if table.status in NOT_SYNCED else "",
        "way_out": why_not(table).way_out if table.status in NOT_SYNCED else "",
    }
