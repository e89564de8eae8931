"""One action on many tables: first what will happen to each, then, after a yes, all
that can be done; each by its own rights and state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_http_methods

from catalog.access.grants import grants_on
from catalog.access.policy import Principal, decide
from catalog.models import Table
from catalog.selectors import TableFilter, tables_for
from catalog.selectors.tables import securable_of
from core.errors import NotFound, SluiceError
from frontend.pages import (
    NOT_CONFIRMED,
    PAGE_SIZE,
    PageRequest,
    is_confirmed,
    page,
    ticked,
)
from frontend.templatetags.states import look_of
from frontend.views.table_actions import effects_of, lower_first
from ingest.actions.registry import ACTIONS, start
from ingest.maintenance.table_action import TableAction
from ingest.models import Pipeline
from ingest.models.states import RETIRED

# in the order in which the list offers them
BULK = ("sync", "pause", "resume", "verify", "compact", "resync")


@dataclass(frozen=True, slots=True)
class Planned:
    """refused: why it is not possible with this table now, "" = it is."""

    table: Table
    will: tuple[str, ...] = ()
    refused: str = ""


@page
@require_http_methods(["GET", "POST"])
def act_on_many(request: PageRequest) -> HttpResponse:
    data = request.POST if request.method == "POST" else request.GET
    action = ACTIONS.get(data.get("do", ""))
    if action is None or action.name not in BULK:
        raise NotFound("there is no such action")
    ids = ticked(data, "table")[:PAGE_SIZE]
    planned = list(plan_for(request.principal, action, ids))
    possible = [one for one in planned if not one.refused]
    if not planned:
        message = gettext("Tick at least one table.")
        messages.error(request, message, extra_tags="bad")
        return redirect("frontend:tables")
    error: SluiceError | None = None
    if request.method == "POST" and possible:
        word = str(len(possible))
        if not action.is_dangerous or is_confirmed(request, word):
            return _start_all(request, action, possible)
        error = SluiceError(gettext(NOT_CONFIRMED))
    context = {
        "action": action,
        "planned": planned,
        "possible": possible,
        "number": len(possible),
        "rows": sum(one.table.estimated_rows for one in possible),
        "shared": _shared(action, possible),
        "error": error,
    }
    return render(request, "frontend/tables/many.html", context)


def plan_for(
    principal: Principal, action: TableAction, ids: Sequence[int]
) -> Iterator[Planned]:
    """Of the tables that the principal may see. Rights and states take a statement
    each for all of them; a preview looks at its table."""
    seen = tables_for(principal, TableFilter(kind=Table.LAKE))
    tables = list(seen.filter(pk__in=ids).order_by("name", "id"))
    things = [securable_of(table) for table in tables]
    grants = () if principal.is_admin else grants_on(principal, things)
    carried = Pipeline.objects.filter(lake_table__in=tables).exclude(state=RETIRED)
    pipelines = {pipeline.lake_table_id: pipeline for pipeline in carried}
    for table, thing in zip(tables, things, strict=True):
        pipeline = pipelines.get(table.pk)
        if not decide(principal, action.privilege, thing, grants).allowed:
            missing = gettext("you lack the privilege %(name)s")
            yield Planned(table, refused=missing % {"name": action.privilege})
        elif pipeline is None or not action.is_offered_to(pipeline):
            state = look_of(pipeline.state if pipeline else table.status).word
            why = gettext("not possible while it is: %(state)s")
            yield Planned(table, refused=why % {"state": gettext(state)})
        else:
            yield _previewed(action, table)


def _shared(action: TableAction, possible: Sequence[Planned]) -> Sequence[str]:
    """What happens to each of them alike."""
    if action.effects:
        return [gettext(line) for line in action.effects]
    found = {one.will for one in possible}
    return found.pop() if len(found) == 1 else ()


def _previewed(action: TableAction, table: Table) -> Planned:
    if action.effects:
        return Planned(table)
    try:
        return Planned(table, will=effects_of(action, table, {}).will)
    except SluiceError as refused:
        return Planned(table, refused=str(refused))


def _start_all(
    request: PageRequest, action: TableAction, possible: Sequence[Planned]
) -> HttpResponse:
    started, refused = 0, ""
    for one in possible:
        try:
            start(action, one.table, actor=request.principal.name, given={})
        except SluiceError as error:
            refused = refused or f"{one.table.name}: {error}"
        else:
            started += 1
    if started:
        said = ngettext(
            "Requested for %(n)s table: %(action)s.",
            "Requested for %(n)s tables: %(action)s.",
            started,
        )
        words = {"n": started, "action": lower_first(action.title)}
        messages.success(request, said % words, extra_tags="ok")
    if refused:
        messages.error(request, refused, extra_tags="bad")
    return redirect("frontend:tables")
