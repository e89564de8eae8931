"""Owner and tags of a source, and of one table or of many: what all of these have is
shown, and what is changed of that is changed for each."""

from __future__ import annotations

from collections.abc import Sequence

from django.contrib import messages
from django.contrib.auth.models import Group, User
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils.translation import gettext, ngettext

from catalog.access.enforcement import denied, require
from catalog.access.grants import grants_on
from catalog.access.policy import Principal, Privilege, Securable, decide
from catalog.datasources import DatasourceChange, update_datasource
from catalog.labels import Labels, label_tables
from catalog.models import Table
from catalog.selectors.tables import TableFilter, securable_of, tables_for
from core.errors import InvalidRequest, SluiceError
from frontend.forms.people import MOST_NAMES
from frontend.pages import PAGE_SIZE, PageRequest, page, refusal_of, ticked
from frontend.views.sources import source_named


@page("GET", "POST")
def label(request: PageRequest) -> HttpResponse:
    data = request.POST if request.method == "POST" else request.GET
    tables = _changeable(request, ticked(data, "table")[:PAGE_SIZE])
    owner, tags = _common(tables)
    error: SluiceError | None = None
    if request.method == "POST":
        wanted, words = _given(data)
        given = set(words)
        labels = Labels(
            owner=None if wanted == owner else wanted,
            added=sorted(given - tags),
            removed=sorted(tags - given),
        )
        try:
            ids = [table.pk for table in tables]
            number = label_tables(ids, labels, by=request.principal.name)
        except SluiceError as refused:
            error = refused
            owner, tags = wanted, given
        else:
            done = ngettext("Saved for %(n)s table.", "Saved for %(n)s tables.", number)
            messages.success(request, done % {"n": number})
            if number == 1:
                return redirect("frontend:table", tables[0].pk)
            return redirect("frontend:tables")
    context = {
        "tables": tables,
        "owner": owner,
        "tags": " ".join(sorted(tags)),
        "error": error,
        "is_of_many": len(tables) > 1,
        **_people(request.principal),
    }
    return render(request, "frontend/tables/labels.html", context)


@page("GET", "POST")
def label_source(request: PageRequest, name: str) -> HttpResponse:
    source = source_named(request, name)
    require(request.principal, Privilege.MANAGE, Securable(source.name))
    owner, tags = source.owner, source.tags
    error: SluiceError | None = None
    if request.method == "POST":
        owner, tags = _given(request.POST)
        change = DatasourceChange(owner=owner, tags=tags)
        by = request.principal.name
        error = refusal_of(
            request,
            gettext("Owner and tags saved."),
            lambda: update_datasource(source.name, change, by=by),
        )
        if error is None:
            return redirect("frontend:source", source.name)
    context = {
        "source": source,
        "owner": owner,
        "tags": " ".join(tags),
        "error": error,
        **_people(request.principal),
    }
    return render(request, "frontend/sources/labels.html", context)


def _given(data: QueryDict) -> tuple[str, list[str]]:
    tags = data.get("tags", "")[:2_000].replace(",", " ").lower().split()
    return data.get("owner", "").strip()[:200], tags


def _changeable(request: PageRequest, ids: Sequence[int]) -> list[Table]:
    """Those named, all of which this person manages."""
    seen = tables_for(request.principal, TableFilter(kind=Table.LAKE))
    tables = list(seen.filter(pk__in=ids).order_by("name", "id"))
    if not tables:
        raise InvalidRequest(gettext("Tick at least one table."))
    things = [securable_of(table) for table in tables]
    principal = request.principal
    grants = () if principal.is_admin else grants_on(principal, things)
    for thing in things:
        if not decide(principal, Privilege.MANAGE, thing, grants).allowed:
            raise denied(principal, Privilege.MANAGE, thing)
    return tables


def _common(tables: Sequence[Table]) -> tuple[str, set[str]]:
    """The owner, and the tags, that all of them have."""
    owners = {table.owner for table in tables}
    tags = [set(table.tags) for table in tables]
    return owners.pop() if len(owners) == 1 else "", set.intersection(*tags)


def _people(principal: Principal) -> dict[str, object]:
    """Whom the form proposes: all only to administrators, as REST lists them."""
    if not principal.is_admin:
        return {"users": [principal.name], "groups": sorted(principal.groups)}
    users = User.objects.filter(is_active=True).order_by("username")
    return {
        "users": users.values_list("username", flat=True)[:MOST_NAMES],
        "groups": Group.objects.order_by("name").values_list("name", flat=True)[
            :MOST_NAMES
        ],
    }
