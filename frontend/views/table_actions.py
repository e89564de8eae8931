"""Actions on a table: first what will happen, then, after a yes, the asking."""

from __future__ import annotations

from dataclasses import replace

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from catalog.access.enforcement import require
from catalog.selectors import table_for
from catalog.selectors.tables import securable_of
from core.errors import NotFound, SluiceError
from frontend.acting import Asked, Effects, effects_of, start
from frontend.actions import ACTIONS
from frontend.pages import NOT_CONFIRMED, PageRequest, is_confirmed, page
from frontend.reading.drivers import driver_for
from frontend.reading.health import proposed_buckets


@page
@require_http_methods(["GET", "POST"])
def table_action(request: PageRequest, table_id: int, name: str) -> HttpResponse:
    table = table_for(request.principal, table_id)
    action = ACTIONS.get(name)
    if action is None or table.kind != table.LAKE:
        raise NotFound("there is no such action")
    require(request.principal, action.privilege, securable_of(table))
    error: SluiceError | None = None
    asked = _asked(request)
    if action.asks_buckets and not asked.buckets:
        asked = replace(asked, buckets=proposed_buckets(table))
    confirmed = is_confirmed(request, table.name)
    if request.method == "POST" and (confirmed or not action.is_danger):
        try:
            job = start(action, table, actor=request.principal.name, asked=asked)
        except SluiceError as refused:
            error = refused
        else:
            messages.success(
                request,
                gettext("%(action)s requested.") % {"action": gettext(action.word)},
                extra_tags="ok",
            )
            if job is not None:
                return redirect("frontend:job", job.pk)
            return redirect("frontend:table", table.pk)
    elif request.method == "POST":
        error = SluiceError(NOT_CONFIRMED)
    try:
        effects = effects_of(action, table, asked)
    except SluiceError as refused:
        if not action.asks_buckets and not action.asks_driver:
            raise
        # what was asked can be changed and looked at again
        effects, error = Effects(), error or refused
    context = {
        "table": table,
        "action": action,
        "effects": effects,
        "asked": asked,
        "error": error,
        "driver": driver_for(table) if action.asks_driver else None,
    }
    return render(request, "frontend/tables/action.html", context)


def _asked(request: PageRequest) -> Asked:
    given = request.POST if request.method == "POST" else request.GET
    instant = given.get("instant", "")
    is_instant = instant.isascii() and instant.isdigit() and len(instant) == 17
    driver = given.get("driver", "")
    return Asked(
        bool(given.get("drop_data")),
        instant if is_instant else "",
        _number(given.get("buckets", "")),
        driver if driver in {"own", "shared"} else "",
        given.get("memory", "").strip()[:10],
        _number(given.get("cores", "")),
        bool(given.get("replan")),
        bool(given.get("accept_empty")),
    )


def _number(text: str) -> int:
    """0 for what is none that could be meant."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
