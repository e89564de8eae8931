"""Actions on a table: first what will happen, then, after a yes, the asking."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from catalog.access import audit
from catalog.access.enforcement import require
from catalog.selectors import table_for
from catalog.selectors.tables import securable_of
from core.errors import NotFound, SluiceError
from frontend.actions import ACTIONS, effects_of, start
from frontend.pages import PageRequest, page


@page
@require_http_methods(["GET", "POST"])
def table_action(request: PageRequest, table_id: int, name: str) -> HttpResponse:
    table = table_for(request.principal, table_id)
    action = ACTIONS.get(name)
    if action is None or table.kind != table.LAKE:
        raise NotFound("there is no such action")
    require(request.principal, action.privilege, securable_of(table))
    error: SluiceError | None = None
    confirmed = request.POST.get("confirm", "").strip() == table.name
    if request.method == "POST" and (confirmed or not action.is_danger):
        drop = bool(request.POST.get("drop_data"))
        try:
            job = start(action, table, actor=request.principal.name, drop_data=drop)
        except SluiceError as refused:
            error = refused
        else:
            data = ("drop" if drop else "keep") if action.asks_drop else None
            audit.record(f"table.{name}", on=str(table), data=data)
            messages.success(request, f"{action.word}: asked for.", extra_tags="ok")
            if job is not None:
                return redirect("frontend:job", job.pk)
            return redirect("frontend:table", table.pk)
    elif request.method == "POST":
        error = SluiceError("the name does not match: nothing was done")
    context = {
        "table": table,
        "action": action,
        "effects": effects_of(action, table),
        "error": error,
    }
    return render(request, "frontend/tables/action.html", context)
