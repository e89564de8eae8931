"""Actions on a table: first what will happen, then, after a yes, the request."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from catalog.access.enforcement import require
from catalog.models import Table
from catalog.selectors import table_for
from catalog.selectors.tables import securable_of
from core.errors import NotFound, SluiceError
from core.jobs import SUCCEEDED
from core.models import Job
from frontend.acting import (
    Effects,
    Given,
    effects_of,
    form_of,
    given_in,
    with_proposals,
)
from frontend.pages import NOT_CONFIRMED, PageRequest, is_confirmed, page
from frontend.reading.drivers import driver_for
from ingest.actions import registry
from ingest.maintenance.table_action import TableAction


@page
@require_http_methods(["GET", "POST"])
def table_action(request: PageRequest, table_id: int, name: str) -> HttpResponse:
    table = table_for(request.principal, table_id)
    action = registry.ACTIONS.get(name)
    if action is None or table.kind != table.LAKE:
        raise NotFound("there is no such action")
    require(request.principal, action.privilege, securable_of(table))
    data = (request.POST if request.method == "POST" else request.GET).dict()
    given = with_proposals(action, table, given_in(action, data))
    error: SluiceError | None = None
    if request.method == "POST":
        if action.is_dangerous and not is_confirmed(request, table.name):
            error = SluiceError(NOT_CONFIRMED)
        else:
            try:
                return _started(request, action, table, given)
            except SluiceError as refused:
                error = refused
    try:
        effects = effects_of(action, table, given)
    except SluiceError as refused:
        if not action.is_correctable:
            raise
        # what was asked can be changed and looked at again
        effects, error = Effects(), error or refused
    context = {
        "table": table,
        "action": action,
        "form": form_of(action, given),
        "effects": effects,
        "asked": data,
        "error": error,
        "driver": driver_for(table) if action.request.has("driver") else None,
    }
    return render(request, "frontend/tables/action.html", context)


def _started(
    request: PageRequest, action: TableAction, table: Table, given: Given
) -> HttpResponse:
    """To the job that runs now, else back to the table."""
    done = registry.start(action, table, actor=request.principal.name, given=given)
    messages.success(
        request,
        gettext("%(action)s requested.") % {"action": gettext(action.title)},
        extra_tags="ok",
    )
    if isinstance(done, Job) and done.state != SUCCEEDED:
        return redirect("frontend:job", done.pk)
    return redirect("frontend:table", table.pk)
