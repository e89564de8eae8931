"""Choose what to carry: by pattern or from the list. Ends in a stored plan."""

from __future__ import annotations

from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from catalog.access import audit
from catalog.access.enforcement import require
from catalog.access.policy import Privilege, Securable
from catalog.models import Datasource
from catalog.selectors import databases_for
from core.errors import SluiceError
from frontend.forms.onboarding import OnboardForm, schedule_of
from frontend.pages import PageRequest, cut, page
from frontend.reading.picking import Search, counts_of, names_of, stretch_of
from frontend.views.sources import source_named
from ingest.onboarding import start_onboarding
from ingest.requests import parse_request
from ingest.schedule import in_words, next_runs

RUNS = 3


@page
@require_http_methods(["GET", "POST"])
def pick_tables(request: PageRequest, name: str) -> HttpResponse:
    source = _manageable(request, name)
    if request.htmx and request.htmx.target == "pick-list":
        context = _rows(request, source)
        return render(request, "frontend/onboarding/pick_rows.html", context)
    initial = {"include": request.GET.get("include", ""), "capture": "timestamp"}
    form = OnboardForm(request.POST or None, initial={"every_seconds": 30, **initial})
    error: SluiceError | None = None
    if request.method == "POST" and form.is_valid():
        try:
            asked = form.request_data(name, _all_matching(request, source))
            row = start_onboarding(parse_request(asked), actor=request.principal.name)
        except SluiceError as refused:
            error = refused
        else:
            audit.record("onboarding.start", on=name, is_approved=False)
            return redirect("frontend:onboarding", row.pk)
    context = {
        "source": source,
        "form": form,
        "error": error,
        "databases": databases_for(request.principal, name)[:1000],
        **_rows(request, source),
    }
    return render(request, "frontend/onboarding/pick.html", context)


@page
@require_safe
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


@page
@require_safe
def schedule_words(request: PageRequest) -> HttpResponse:
    """What a schedule means, in words, and when it runs next."""
    context: dict[str, object] = {}
    try:
        schedule = schedule_of(request.GET)
    except SluiceError as refused:
        context["error"] = refused
    else:
        context |= {
            "words": in_words(schedule) if schedule else "",
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
    found = cut(request, rows, size=25)
    return {
        "wanted": wanted,
        "tables": found,
        "previous": found.number - 1,
        "following": found.number + 1,
    }


def _all_matching(request: PageRequest, source: Datasource) -> list[str]:
    """Names of all tables of the search, when that was chosen."""
    if not request.POST.get("all_matching"):
        return []
    rows = Search.of(request.POST, "matching_").rows(request.principal, source.name)
    without = set(request.POST.get("unselected", "").splitlines())
    return names_of(rows, without=without)
