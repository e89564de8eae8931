"""Forms of schedules, policies and maintenance windows, at each level."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext

from catalog.access.enforcement import require
from catalog.access.policy import Privilege
from catalog.api.etag import content_tag
from catalog.selectors.lookups import table_for
from catalog.selectors.tables import database_for, databases_for
from core.errors import SluiceError, StaleState
from frontend.forms.policy import PolicyForm
from frontend.pages import PageRequest, page
from frontend.reading.schedules import schedule_words
from frontend.views.sources import source_named
from ingest.pipelines.policy_levels import Settings, of_source, of_table

MOST_DATABASES = 500


@page("GET", "POST")
def table_policy(request: PageRequest, table_id: int) -> HttpResponse:
    table = table_for(request.principal, table_id)
    return _form_page(request, of_table(table), {"table": table, "here": "policy"})


@page("GET", "POST")
def source_policy(request: PageRequest, name: str) -> HttpResponse:
    source = source_named(request, name)
    wanted = request.GET.get("database", "")
    database = database_for(request.principal, name, wanted) if wanted else None
    context: dict[str, object] = {
        "databases": databases_for(request.principal, name)[:MOST_DATABASES],
        "wanted": wanted,
        "here": "policy",
    }
    return _form_page(request, of_source(source, database), context)


def _form_page(
    request: PageRequest, level: Settings, context: dict[str, object]
) -> HttpResponse:
    require(request.principal, Privilege.MANAGE, level.on)
    form = PolicyForm(
        request.POST or None,
        given=level.given,
        above=level.above,
        is_of_table="table" in context,
    )
    error: SluiceError | None = None
    if request.method == "POST" and form.is_valid():
        try:
            _change(request, level, form)
        except SluiceError as refused:
            error = refused
        else:
            return redirect(request.get_full_path())
    context |= {
        "level": level,
        "tag": content_tag(level.given),
        "source": level.source,
        "form": form,
        "error": error,
        "when": schedule_words(level.counts.schedule),
        "runs": level.runs(timezone.now()) if level.has_syncs else [],
    }
    status = 422 if request.method == "POST" else 200
    template = "tables/settings" if "table" in context else "sources/policy"
    return render(request, f"frontend/{template}.html", context, status=status)


def _change(request: PageRequest, level: Settings, form: PolicyForm) -> None:
    change = form.change()
    if not level.has_syncs:
        change.pop("schedule", None)
    if not change:
        messages.success(request, gettext("Nothing was changed."))
        return
    with level.locked() as given:
        if content_tag(given) != request.POST.get("tag"):
            raise StaleState(
                gettext(
                    "another user changed these settings since you opened this page"
                ),
                hint=gettext(
                    "look at what counts now, and save again if it is still right"
                ),
            )
        level.change(change)
    messages.success(request, gettext("Settings saved."))
