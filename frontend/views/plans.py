"""A plan: what will happen table by table, choices, approval, and then progress."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext, ngettext

from catalog.access import audit
from core.errors import NotFound, SluiceError
from core.sentences import Sentence
from frontend.forms.onboarding import ChoicesForm, ManyForm
from frontend.pages import (
    NumberedPage,
    PageRequest,
    attempt,
    page,
    page_number,
    refusal_of,
)
from frontend.reading.onboardings import (
    item_of,
    meant,
    only_blocked,
    page_of,
    progress_of,
    shared_by,
)
from ingest.models import Onboarding
from ingest.pipelines.onboarding import approve_onboarding, discard_onboarding
from ingest.pipelines.onboarding_rights import manages_plan, require_plan
from ingest.pipelines.plan_overrides import (
    Chosen,
    choose_for,
    choose_for_many,
    chosen_in,
)
from ingest.pipelines.selectors import (
    hide_places,
    onboarding_for,
    pipelines_for,
    request_shown,
)
from ingest.planning.facts import ROW_HASH

SIZE = 25
# What a click changes of a table's choices; nothing = the table is left out.
DECISIONS: dict[str, dict[str, Any]] = {
    "row_hash": {"record_key": ROW_HASH, "capture": "snapshot"},
    "snapshot": {"capture": "snapshot"},
    "leave_out": {},
}
NAMED = 20


@page()
def plan_page(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    onboarding = onboarding_for(request.principal, pk)
    pipelines = _pipelines(request, onboarding)
    is_open = len(pipelines.items) == 1
    hide_places(request.principal, onboarding, pipelines.items)
    items = [item_of(pipeline, is_open=is_open) for pipeline in pipelines.items]
    shared = shared_by(items)
    context = {
        "onboarding": onboarding,
        "left_out": request_shown(request.principal, onboarding).get("uncarried"),
        "overview": progress_of(request.principal, onboarding),
        "tables": replace(pipelines, items=items),
        "shared": shared,
        "wanted": request.GET.get("show", ""),
        "may_manage": manages_plan(request.principal, onboarding),
    }
    return render(request, "frontend/onboarding/plan.html", context)


@page()
def overview(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    onboarding = onboarding_for(request.principal, pk)
    context = {
        "onboarding": onboarding,
        "overview": progress_of(request.principal, onboarding),
        "moved": _pipelines(request, onboarding).items,
    }
    return render(request, "frontend/onboarding/overview.html", context)


@page("POST")
def approve(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    onboarding = onboarding_for(request.principal, pk)
    require_plan(request.principal, onboarding)
    refused = attempt(
        request,
        gettext(
            "Approved. Snapshots run when the driver is free; their progress is below."
        ),
        lambda: approve_onboarding(onboarding, principal=request.principal),
    )
    if refused is None:
        source = onboarding.datasource.name
        audit.record("onboarding.approve", on=source, id=str(onboarding.pk))
    return redirect("frontend:onboarding", pk)


@page("GET", "POST")
def discard(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Says what is given up; a second press does it."""
    onboarding = onboarding_for(request.principal, pk)
    require_plan(request.principal, onboarding)
    source = onboarding.datasource.name
    if request.method == "POST":
        count = discard_onboarding(onboarding, actor=request.principal.name)
        audit.record("onboarding.discard", on=source, id=str(pk), tables=count)
        messages.success(request, gettext("Plan discarded."))
        return redirect("frontend:source", source)
    overview = progress_of(request.principal, onboarding)
    context = {
        "onboarding": onboarding,
        "count": overview.approvable + overview.blocked,
    }
    return render(request, "frontend/onboarding/discard.html", context)


@page("GET", "POST")
def choose(request: PageRequest, pk: uuid.UUID, pipeline_id: int) -> HttpResponse:
    onboarding = onboarding_for(request.principal, pk)
    require_plan(request.principal, onboarding)
    pipeline = (
        pipelines_for(request.principal, onboarding).filter(pk=pipeline_id).first()
    )
    if pipeline is None:
        raise NotFound(Sentence("there is no such table in this plan"))
    form = ChoicesForm(request.POST or None, pipeline=pipeline)
    error: SluiceError | None = None
    if request.method == "POST" and form.is_valid():
        chosen, own = form.choices(), form.own(pipeline.policy)
        error = refusal_of(
            request,
            gettext("Planned again."),
            lambda: choose_for(pipeline, chosen, principal=request.principal, own=own),
        )
        if error is None:
            return redirect("frontend:onboarding", pk)
    context = {
        "onboarding": onboarding,
        "item": item_of(pipeline),
        "form": form,
        "error": error,
    }
    return render(request, "frontend/onboarding/choose.html", context)


@page("POST")
def decide(request: PageRequest, pk: uuid.UUID, pipeline_id: int) -> HttpResponse:
    """One of the choices that stand in a table's row."""
    onboarding = onboarding_for(request.principal, pk)
    require_plan(request.principal, onboarding)
    rows = pipelines_for(request.principal, onboarding)
    pipeline = rows.filter(pk=pipeline_id).first()
    change = DECISIONS.get(request.POST.get("choice", ""))
    if pipeline is None or change is None:
        raise NotFound(Sentence("there is no such choice in this plan"))
    actor = request.principal

    def decided() -> None:
        if not change:
            count = discard_onboarding(onboarding, actor=actor.name, only=pipeline.pk)
            source = onboarding.datasource.name
            audit.record("onboarding.discard", on=source, id=str(pk), tables=count)
            return
        chosen = replace(chosen_in(pipeline.plan), **change)
        choose_for(pipeline, chosen, principal=actor, own=pipeline.policy)

    attempt(request, gettext("Planned again."), decided)
    return redirect("frontend:onboarding", pk)


@page("GET", "POST")
def choose_many(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """One form for the tables ticked, for those that need a choice, or for all."""
    onboarding = onboarding_for(request.principal, pk)
    require_plan(request.principal, onboarding)
    given = request.POST if request.method == "POST" else request.GET
    pipelines, of = meant(pipelines_for(request.principal, onboarding), given)
    form = ManyForm(request.POST or None)
    error: SluiceError | None = None
    if request.method == "POST" and form.is_valid():
        try:
            done = choose_for_many(pipelines, form.given(), principal=request.principal)
        except SluiceError as refused:
            error = refused
        else:
            _tell(request, done)
            return redirect("frontend:onboarding", pk)
    context = {
        "onboarding": onboarding,
        "form": form,
        "error": error,
        "of": of,
        "ticked": given.getlist("pipeline"),
        "count": pipelines.count(),
        "names": [pipeline.plan.get("source", "") for pipeline in pipelines[:NAMED]],
    }
    return render(request, "frontend/onboarding/many.html", context)


def _tell(request: PageRequest, done: Chosen) -> None:
    if done.planned:
        text = ngettext(
            "%(count)s table planned again.",
            "%(count)s tables planned again.",
            done.planned,
        )
        messages.success(request, text % {"count": done.planned})
    for name, why in done.refused[:NAMED]:
        text = gettext("%(name)s stays as it was: %(why)s") % {"name": name, "why": why}
        messages.error(request, text)


def _pipelines(request: PageRequest, onboarding: Onboarding) -> NumberedPage:
    rows = pipelines_for(request.principal, onboarding)
    if request.GET.get("show") == "blocked":
        rows = only_blocked(rows)
    number = min(page_number(request), 100_000)
    start = (number - 1) * SIZE
    found = page_of(rows, start, start + SIZE + 1)
    return NumberedPage(found[:SIZE], number, has_next=len(found) > SIZE, size=SIZE)
