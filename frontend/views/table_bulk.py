"""One action on many tables: first what will happen to each, then, after a yes, all
that can be done; each by its own rights and state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils.translation import gettext, ngettext

from catalog.access.grants import grants_on
from catalog.access.policy import Principal, decide
from catalog.models import Table
from catalog.selectors.tables import TableFilter, securable_of, tables_for
from core.errors import NotFound, SluiceError
from core.sentences import Sentence
from core.translation import translated
from frontend.pages import (
    NOT_CONFIRMED,
    PAGE_SIZE,
    PageRequest,
    is_confirmed,
    page,
    ticked,
)
from frontend.templatetags.states import look_of
from frontend.views.table_actions import (
    FormField,
    Given,
    form_of,
    given_in,
    lower_first,
    sentences,
)
from ingest.actions.registry import ACTIONS, start
from ingest.maintenance.impact_on_many import Foreseen
from ingest.maintenance.table_action import TableAction
from ingest.models import Pipeline
from ingest.models.states import RETIRED

# in the order in which the list offers them
BULK = ("sync", "pause", "resume", "verify", "compact", "resync", "remove")


@dataclass(frozen=True, slots=True)
class Planned:
    """refused: why it is not possible with this table now, "" = it is."""

    table: Table
    will: tuple[str, ...] = ()
    refused: str = ""


@page("GET", "POST")
def act_on_many(request: PageRequest) -> HttpResponse:
    data = request.POST if request.method == "POST" else request.GET
    action = ACTIONS.get(data.get("do", ""))
    if action is None or action.name not in BULK:
        raise NotFound(Sentence("there is no such action"))
    ids = ticked(data, "table")[:PAGE_SIZE]
    planned = plan_for(request.principal, action, ids)
    possible = [one for one in planned if not one.refused]
    given = _choices(action, data)
    if not planned:
        message = gettext("Tick at least one table.")
        messages.error(request, message)
        return redirect("frontend:tables")
    error: SluiceError | None = None
    if request.method == "POST" and possible:
        word = str(len(possible))
        if not action.is_dangerous or is_confirmed(request, word):
            return _start_all(request, action, possible, given)
        error = SluiceError(gettext(NOT_CONFIRMED))
    shared = _shared(action, possible)
    context = {
        "action": action,
        "planned": _own(planned, shared),
        "possible": possible,
        "number": len(possible),
        "rows": sum(one.table.estimated_rows for one in possible),
        "shared": shared,
        "fields": _fields(action, planned[0].table, given),
        "error": error,
    }
    return render(request, "frontend/tables/many.html", context)


def plan_for(
    principal: Principal, action: TableAction, ids: Sequence[int]
) -> list[Planned]:
    """Of the tables that the principal may see. Rights, states and what will happen
    take a statement each for all of them."""
    seen = tables_for(principal, TableFilter(kind=Table.LAKE))
    tables = list(seen.filter(pk__in=ids).order_by("name", "id"))
    things = [securable_of(table) for table in tables]
    grants = () if principal.is_admin else grants_on(principal, things)
    pipelines = _pipelines_of(tables)
    refused: dict[int, str] = {}
    for table, thing in zip(tables, things, strict=True):
        if not decide(principal, action.privilege, thing, grants).allowed:
            missing = gettext("you lack the privilege %(name)s")
            refused[table.pk] = missing % {"name": action.privilege}
        elif why := _out_of_state(action, table, pipelines.get(table.pk)):
            refused[table.pk] = why
    possible = [
        (table, pipelines[table.pk]) for table in tables if table.pk not in refused
    ]
    foreseen = action.preview_many(possible) if action.preview_many else {}
    return [
        Planned(table, refused=refused[table.pk])
        if table.pk in refused
        else _planned(table, foreseen.get(table.pk, ()))
        for table in tables
    ]


def _pipelines_of(tables: Sequence[Table]) -> dict[int, Pipeline]:
    carried = Pipeline.objects.filter(lake_table__in=tables).exclude(state=RETIRED)
    related = carried.select_related("source_table__database__datasource")
    return {p.lake_table_id: p for p in related if p.lake_table_id is not None}


def _out_of_state(action: TableAction, table: Table, pipeline: Pipeline | None) -> str:
    if pipeline is not None and action.is_offered_to(pipeline):
        return ""
    state = look_of(pipeline.state if pipeline else table.status).word
    return gettext("not possible while it is: %(state)s") % {"state": gettext(state)}


def _planned(table: Table, foreseen: Foreseen) -> Planned:
    if isinstance(foreseen, SluiceError):
        return Planned(table, refused=translated(foreseen.as_sentence))
    return Planned(table, will=sentences(foreseen))


def _shared(action: TableAction, possible: Sequence[Planned]) -> Sequence[str]:
    """What happens to each of them alike."""
    if action.effects:
        return [gettext(line) for line in action.effects]
    first = possible[0].will if possible else ()
    return [line for line in first if all(line in one.will for one in possible)]


def _own(planned: Sequence[Planned], shared: Sequence[str]) -> list[Planned]:
    """With what is not said of all."""
    return [
        replace(one, will=tuple(line for line in one.will if line not in shared))
        for one in planned
    ]


def _choices(action: TableAction, data: QueryDict) -> dict[str, Any]:
    """What is chosen for all of them alike, of what no preview depends on."""
    found = given_in(action, data)
    fields = [each for each in action.request.fields if each.kind == "choice"]
    names = {each.name for each in fields if not each.changes_preview}
    return {name: found[name] for name in names & found.keys()}


def _fields(action: TableAction, table: Table, given: Given) -> list[FormField]:
    fields = form_of(action, table, given).after
    return [each for each in fields if each.field.kind == "choice"]


def _start_all(
    request: PageRequest,
    action: TableAction,
    possible: Sequence[Planned],
    given: Given,
) -> HttpResponse:
    started, refused = 0, list[str]()
    for one in possible:
        try:
            start(action, one.table, actor=request.principal.name, given=given)
        except SluiceError as error:
            refused.append(f"{one.table.name}: {translated(error.as_sentence)}")
        else:
            started += 1
    if started:
        said = ngettext(
            "Requested for %(n)s table: %(action)s.",
            "Requested for %(n)s tables: %(action)s.",
            started,
        )
        words = {"n": started, "action": lower_first(action.title)}
        messages.success(request, said % words)
    if refused:
        told, more = refused[0], len(refused) - 1
        if more:
            several = gettext("%(first)s (and %(more)s more)")
            told = several % {"first": told, "more": more}
        messages.error(request, told)
    return redirect("frontend:tables")
