"""Add, edit and delete a source. Checks beyond the form are the catalog's."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from catalog import datasources
from catalog.access.enforcement import require, require_admin
from catalog.access.policy import Principal, Privilege, Securable
from catalog.datasources import DatasourceChange, NewDatasource
from catalog.discovery.services import start_test
from catalog.discovery.sources import needs_script
from catalog.kinds import KINDS, Kind, kind_named
from catalog.models import Datasource
from core.errors import SluiceError
from frontend.forms.sources import SourceForm, initial_of
from frontend.pages import NOT_CONFIRMED, PageRequest, is_confirmed, page
from frontend.reading.sources import may_register
from frontend.views.sources import source_named


@sensitive_post_parameters("password")
@page
@require_http_methods(["GET", "POST"])
def add_source(request: PageRequest) -> HttpResponse:
    if not may_register(request.principal):
        require_admin(request.principal)
    asked = request.POST.get("kind") or request.GET.get("kind") or "postgresql"
    kind = kind_named(asked)
    form = SourceForm(request.POST or None, kind=kind, initial=initial_of(kind, None))
    error: SluiceError | None = None
    if request.method == "POST" and form.is_valid():
        try:
            source = _create(form, request.principal)
        except SluiceError as refused:
            error = None if form.point_at(refused.facts.get("errors")) else refused
        else:
            messages.success(request, f"{source.name} is stored.", extra_tags="ok")
            return redirect("frontend:source", source.name)
    return _render(request, kind, form, error=error)


@sensitive_post_parameters("password")
@page
@require_http_methods(["GET", "POST"])
def edit_source(request: PageRequest, name: str) -> HttpResponse:
    source = source_named(request, name)
    require(request.principal, Privilege.MANAGE, Securable(name))
    kind = kind_named(source.kind)
    initial = initial_of(kind, source)
    form = SourceForm(request.POST or None, kind=kind, stored=source, initial=initial)
    error: SluiceError | None = None
    if request.method == "POST" and form.is_valid():
        try:
            _update(source, form, by=request.principal.name)
        except SluiceError as refused:
            error = None if form.point_at(refused.facts.get("errors")) else refused
        else:
            messages.success(request, f"{name} is changed.", extra_tags="ok")
            return redirect("frontend:source", name)
    return _render(request, kind, form, error=error, source=source)


@page
@require_http_methods(["GET", "POST"])
def delete_source(request: PageRequest, name: str) -> HttpResponse:
    source = source_named(request, name)
    require(request.principal, Privilege.MANAGE, Securable(name))
    error: SluiceError | None = None
    if request.method == "POST":
        if is_confirmed(request, name):
            try:
                datasources.delete_datasource(name, by=request.principal.name)
            except SluiceError as refused:
                error = refused
            else:
                messages.success(request, f"{name} is deleted.", extra_tags="ok")
                return redirect("frontend:sources")
        else:
            error = SluiceError(NOT_CONFIRMED)
    context = {"source": source, "error": error}
    return render(request, "frontend/sources/delete.html", context)


def _create(form: SourceForm, principal: Principal) -> Datasource:
    data, by = form.cleaned_data, principal.name
    require(principal, Privilege.MANAGE, Securable(data["name"]))
    source = datasources.create_datasource(
        NewDatasource(
            name=data["name"],
            kind=form.kind.name,
            host=data["host"],
            port=data["port"],
            database=data["database"],
            username=data["username"],
            password=data["password"],
            tls=data["tls"],
            options=form.options(),
        ),
        by=by,
    )
    start_test(source, by=by)
    return source


def _update(source: Datasource, form: SourceForm, *, by: str) -> None:
    data = form.cleaned_data
    change = DatasourceChange(
        host=data["host"],
        port=data["port"],
        database=data["database"],
        username=data["username"],
        password=data["password"] or None,
        tls=data["tls"],
        options=form.options(),
    )
    datasources.update_datasource(
        source.name, change, by=by, expected_version=source.version
    )


def _render(
    request: PageRequest,
    kind: Kind,
    form: SourceForm,
    *,
    error: SluiceError | None,
    source: Datasource | None = None,
) -> HttpResponse:
    user = (source.username if source else form["username"].value()) or "sluice"
    database = (source.database if source else form["database"].value()) or "shop"
    context: dict[str, Any] = {
        "form": form,
        "source": source,
        "error": error,
        "kinds": list(KINDS.values()),
        "chosen": kind,
        "later": ", ".join(k.title for k in KINDS.values() if not k.is_available),
        "needs": needs_script(kind.name, str(user), str(database)),
    }
    has_faults = bool(form.errors or error)
    status = 422 if has_faults and request.method == "POST" else 200
    return render(request, "frontend/sources/form.html", context, status=status)
