"""Actions on a table: first what will happen, then, after a yes, the request.

`ingest.actions.registry` previews and starts them; the services decide whether one is
possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils.translation import gettext

from catalog.access.enforcement import require
from catalog.models import Table
from catalog.selectors.lookups import table_for
from catalog.selectors.tables import securable_of
from core.errors import InvalidRequest, NotFound, SluiceError, StaleState
from core.jobs import SUCCEEDED
from core.models import Job
from core.sentences import Sentence
from core.translation import translated
from frontend.pages import NOT_CONFIRMED, PageRequest, is_confirmed, page, status_of
from ingest.actions import registry
from ingest.contract.job import DriverSpec
from ingest.lake.hudi.identity import shares_lock
from ingest.maintenance import compaction_drivers
from ingest.maintenance.repair_previews import Preview
from ingest.maintenance.table_action import Field, TableAction
from ingest.pipelines.transitions import pipeline_of

Given = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of an action with what the form says; None = nothing yet. offered: names
    that can be chosen for this table."""

    field: Field
    value: object
    offered: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return self.field.offered is not None and not self.offered

    @property
    def template(self) -> str:
        return f"frontend/tables/fields/{self.field.part or self.field.kind}.html"


@dataclass(frozen=True, slots=True)
class Form:
    """before: the fields that change what will happen; after: the others. hidden: what
    came with the address and is asked for as it is."""

    before: list[FormField]
    after: list[FormField]
    hidden: list[FormField]


@dataclass(frozen=True, slots=True)
class Effects:
    """will  happen, in sentences, in order. misses  what it cannot bring back, and
    then  the action that does"""

    will: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    then: str = ""


def given_in(action: TableAction, data: QueryDict) -> dict[str, Any]:
    """What the form says, by the names of the action's fields; nothing for what it
    leaves open, or what cannot be meant."""
    found = {
        each.name: value
        for each in action.request.fields
        if not each.is_dry_run
        and (value := each.from_form(*(data.getlist(each.name) or [""]))) is not None
    }
    return {
        name: value
        for name, value in found.items()
        if (needs := action.request.field(name).needs) is None
        or found.get(needs[0]) == needs[1]
    }


def with_proposals(action: TableAction, table: Table, given: Given) -> dict[str, Any]:
    """The same, with what the table suggests where the form says nothing."""
    proposed = {
        each.name: each.proposal(table)
        for each in action.request.fields
        if each.proposal is not None and each.name not in given
    }
    return {**given, **proposed}


def form_of(action: TableAction, table: Table, data: Given) -> Form:
    shown = [
        FormField(
            each,
            data.get(each.name),
            each.offered(table) if each.offered is not None else (),
        )
        for each in action.request.fields
    ]
    labelled = [each for each in shown if each.field.label and not each.is_empty]
    return Form(
        before=[each for each in labelled if each.field.changes_preview],
        after=[each for each in labelled if not each.field.changes_preview],
        hidden=[each for each in shown if each.field.kind == "instant" and each.value],
    )


def effects_of(action: TableAction, table: Table, given: Given) -> Effects:
    """What will happen, with today's numbers where they matter."""
    if action.effects:
        return Effects(tuple(map(gettext, action.effects)))
    if action.describe is not None:
        return Effects(sentences(action.describe(table)))
    found = registry.preview(action, table, given)
    if not isinstance(found, Preview):
        return Effects()
    return Effects(sentences(found.will), sentences(found.misses), found.then)


def sentences(lines: Iterable[str]) -> tuple[str, ...]:
    end = gettext(".")
    return tuple(f"{translated(line)}{end}" for line in lines)


@page("GET", "POST")
def table_action(request: PageRequest, table_id: int, name: str) -> HttpResponse:
    table = table_for(request.principal, table_id)
    action = registry.ACTIONS.get(name)
    if action is None or table.kind != table.LAKE:
        raise NotFound(Sentence("there is no such action"))
    require(request.principal, action.privilege, securable_of(table))
    data = request.POST if request.method == "POST" else request.GET
    given = with_proposals(action, table, given_in(action, data))
    error: SluiceError | None = None
    is_refused = False
    if request.method == "POST":
        if action.is_dangerous and not is_confirmed(request, table.name):
            error = SluiceError(gettext(NOT_CONFIRMED))
        else:
            try:
                return _started(request, action, table, given)
            except SluiceError as refused:
                error = refused
    try:
        effects = effects_of(action, table, given)
    except SluiceError as refused:
        # what was asked can be changed and looked at again, or the table's state
        is_refused = not action.is_correctable
        if is_refused and not isinstance(refused, InvalidRequest | StaleState):
            raise
        effects, error = Effects(), error or refused
    context = {
        "table": table,
        "action": action,
        "form": form_of(action, table, given),
        "effects": effects,
        "asked": data.dict(),
        "error": error,
        "is_refused": is_refused,
        "first": first_of(table) if is_refused else None,
        "driver": driver_for(table) if action.request.has("driver") else None,
    }
    status = status_of(error) if error and is_refused else 200
    return render(request, "frontend/tables/action.html", context, status=status)


def first_of(table: Table) -> TableAction | None:
    """What is to be done before others are possible, of a table that stands still."""
    pipeline, resume = pipeline_of(table.pk), registry.ACTIONS["resume"]
    return resume if pipeline and resume.is_offered_to(pipeline) else None


def lower_first(title: str) -> str:
    shown = gettext(title)
    return shown[:1].lower() + shown[1:]


def _started(
    request: PageRequest, action: TableAction, table: Table, given: Given
) -> HttpResponse:
    """To the job that runs now, else back to the table."""
    done = registry.start(action, table, actor=request.principal.name, given=given)
    messages.success(
        request,
        gettext("Requested: %(action)s.") % {"action": lower_first(action.title)},
    )
    if isinstance(done, Job) and done.state != SUCCEEDED:
        return redirect("frontend:job", done.pk)
    return redirect("frontend:table", table.pk)


@dataclass(frozen=True, slots=True)
class DriverChoice:
    """is_shared: the table's lock allows a second driver. by_policy: where it runs
    by default; None = in the shared driver. most: what may be given."""

    is_shared: bool
    by_policy: DriverSpec | None
    most: DriverSpec


def driver_for(table: Table) -> DriverChoice:
    return DriverChoice(
        shares_lock(table.identity),
        compaction_drivers.by_policy(table),
        compaction_drivers.most(),
    )
