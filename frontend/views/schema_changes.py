"""Tables whose columns wait for a decision, approved several at once."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext, ngettext

from catalog.access.enforcement import require
from catalog.access.policy import Privilege
from catalog.models import Table
from catalog.selectors.tables import TableFilter, securable_of, tables_for
from frontend.pages import PageRequest, page, ticked
from ingest.pipelines.schema_approval import (
    MOST_AT_ONCE,
    Decided,
    approve_many,
    undecided,
)
from ingest.planning.drift import Aside

WAYS: tuple[Aside, ...] = ("keep_null", "leave_out")


@page("GET", "POST")
def schema_changes(request: PageRequest) -> HttpResponse:
    tables = tables_for(request.principal, TableFilter(kind=Table.LAKE))
    if request.method == "POST":
        chosen = ticked(request.POST, "table")[:MOST_AT_ONCE]
        ways = [way for way in WAYS if way in request.POST]
        _approve(request, tables.filter(pk__in=chosen).order_by("pk"), ways)
        return redirect("frontend:schema-changes")
    context = {"undecided": undecided(tables)}
    return render(request, "frontend/tables/changes.html", context)


def _approve(
    request: PageRequest, tables: Iterable[Table], ways: Iterable[Aside]
) -> None:
    rows = list(tables)
    for table in rows:
        require(request.principal, Privilege.OPERATE, securable_of(table))
    actor = request.principal.name
    done = approve_many(rows, actor=actor, set_aside=list(ways))
    if count := sum(one.error is None for one in done):
        text = ngettext("%(n)s table goes on.", "%(n)s tables go on.", count)
        messages.success(request, text % {"n": count})
    for one in done:
        if one.error is not None:
            messages.error(request, _refused(one))


def _refused(one: Decided) -> str:
    words = {"table": one.table, "reason": one.error}
    return gettext("%(table)s stays as it is: %(reason)s") % words
