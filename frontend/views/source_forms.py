"""Add, edit and delete a source. Checks beyond the form are the catalog's."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from catalog import datasources
from catalog.access.enforcement import may_register, require, require_admin
from catalog.access.policy import Privilege, Securable
from catalog.discovery.probe import Report
from catalog.models import Datasource
from catalog.sources.kinds import SourceKind
from catalog.sources.registry import KINDS, kind_named
from core.errors import SluiceError
from frontend import sealed
from frontend.entering import Entry
from frontend.forms.sources import SourceForm, initial_of
from frontend.pages import NOT_CONFIRMED, PageRequest, is_confirmed, page
from frontend.reading.sources import report_steps
from frontend.views.sources import source_named


@sensitive_post_parameters("password")
@page
@require_http_methods(["GET", "POST"])
def add_source(request: PageRequest) -> HttpResponse:
    if not may_register(request.principal):
        require_admin(request.principal)
    asked = request.POST.get("kind") or request.GET.get("kind") or "postgresql"
    return _form_page(request, kind_named(asked), None)


@sensitive_post_parameters("password")
@page
@require_http_methods(["GET", "POST"])
def edit_source(request: PageRequest, name: str) -> HttpResponse:
    source = source_named(request, name)
    require(request.principal, Privilege.MANAGE, Securable(name))
    return _form_page(request, kind_named(source.kind), source)


def _form_page(
    request: PageRequest, kind: SourceKind, stored: Datasource | None
) -> HttpResponse:
    """Test and save; what fails comes back with everything that was typed."""
    slot = stored.name if stored else ""
    form = SourceForm(
        request.POST or None,
        kind=kind,
        stored=stored,
        initial=initial_of(kind, stored),
        kept=_kept_password(request, slot),
    )
    if request.method != "POST":
        return _render(request, kind, form, source=stored)
    entry = Entry(form, stored, request.principal)
    try:
        saved = entry.save(is_tested=request.POST.get("then") != "save")
    except SluiceError as refused:
        error = None if form.point_at(refused.facts.get("errors")) else refused
        return _render(request, kind, form, error=error, source=stored)
    if saved is None:
        return _render(request, kind, form, source=stored, report=entry.report)
    sealed.forget(request, slot)
    messages.success(request, entry.words(saved), extra_tags="ok")
    return redirect("frontend:source", saved.name)


def _kept_password(request: PageRequest, slot: str) -> str:
    if request.method != "POST":
        sealed.forget(request, slot)
        return ""
    if typed := request.POST.get("password", "")[:1000]:
        sealed.keep(request, slot, typed)
        return typed
    return sealed.kept(request, slot)


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
                messages.success(
                    request,
                    gettext("%(name)s deleted.") % {"name": name},
                    extra_tags="ok",
                )
                return redirect("frontend:sources")
        else:
            error = SluiceError(NOT_CONFIRMED)
    context = {"source": source, "error": error}
    return render(request, "frontend/sources/delete.html", context)


def _render(
    request: PageRequest,
    kind: SourceKind,
    form: SourceForm,
    *,
    error: SluiceError | None = None,
    source: Datasource | None = None,
    report: Report | None = None,
) -> HttpResponse:
    user = (source.username if source else form["username"].value()) or "sluice"
    database = (source.database if source else form["database"].value()) or "shop"
    context: dict[str, Any] = {
        "form": form,
        "source": source,
        "error": error,
        "steps": report_steps(report) if report else [],
        "kinds": list(KINDS.values()),
        "chosen": kind,
        "later": ", ".join(k.title for k in KINDS.values() if not k.is_available),
        "needs": kind.privileges.script(str(user), str(database)),
    }
    has_faults = bool(form.errors or error)
    status = 422 if has_faults and request.method == "POST" else 200
    return render(request, "frontend/sources/form.html", context, status=status)
