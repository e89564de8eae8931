"""Choose what to carry: by pattern or from the list. Ends in a stored plan."""

from __future__ import annotations

from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from catalog.access import audit
from catalog.access.enforcement import require
from catalog.access.policy import Privilege, Securable
from catalog.models import Datasource, Table
from catalog.selectors import TableFilter, databases_for, tables_for
from core.errors import SluiceError
from frontend.forms.onboarding import OnboardForm
from frontend.pages import PageRequest, cut, page
from frontend.views.sources import source_named
from ingest.onboarding import start_onboarding
from ingest.requests import parse_request

MOST_MATCHING = 100_000
NOT_CARRIED = Q(("carried_as", None))  # an annotation of the selector


@page
@require_http_methods(["GET", "POST"])
def pick_tables(request: PageRequest, name: str) -> HttpResponse:
    source = source_named(request, name)
    require(request.principal, Privilege.MANAGE, Securable(name))
    if request.htmx and request.htmx.target == "pick-list":
        return render(
            request, "frontend/onboarding/pick_rows.html", _rows(request, source)
        )
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


def _rows(request: PageRequest, source: Datasource) -> dict[str, object]:
    wanted = TableFilter(
        source.name,
        request.GET.get("database", ""),
        kind=Table.SOURCE,
        q=request.GET.get("q", "").strip()[:300],
    )
    rows = tables_for(request.principal, wanted).prefetch_related(None)
    found = cut(request, rows.order_by("database__name", "name", "id"), size=25)
    is_searched = bool(wanted.q or wanted.database)
    return {
        "wanted": wanted,
        "tables": found,
        "previous": found.number - 1,
        "following": found.number + 1,
        "matching": rows.filter(NOT_CARRIED).count() if is_searched else 0,
    }


def _all_matching(request: PageRequest, source: Datasource) -> list[str]:
    """Names of all tables of the search, when that box was ticked."""
    if not request.POST.get("all_matching"):
        return []
    wanted = TableFilter(
        source.name,
        request.POST.get("matching_database", ""),
        kind=Table.SOURCE,
        q=request.POST.get("matching_q", "").strip()[:300],
    )
    rows = tables_for(request.principal, wanted).prefetch_related(None)
    names = rows.filter(NOT_CARRIED).values_list("database__name", "name")
    return [f"{database}.{table}" for database, table in names[:MOST_MATCHING]]
