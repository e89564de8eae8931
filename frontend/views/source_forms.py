"""Add, edit and delete a source. Checks beyond the form are the catalog's.

What was entered is checked as a whole, tried, and only then stored. A try takes a
thread of the web server, so it is short and few run at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.debug import sensitive_post_parameters

from catalog import datasources
from catalog.access.enforcement import may_register, require, require_admin
from catalog.access.policy import Principal, Privilege, Securable
from catalog.api.stream_limit import Places
from catalog.datasources import DatasourceChange, NewDatasource
from catalog.discovery.probe import Report, run_probe
from catalog.discovery.services import start_discovery, start_test
from catalog.models import Datasource
from catalog.sources.access import access_for
from catalog.sources.kinds import SourceKind
from catalog.sources.registry import KINDS, kind_named
from core.errors import SluiceError, TransientError
from frontend.forms.sources import MAIN, SourceForm, initial_of, taken_apart
from frontend.pages import NOT_CONFIRMED, PageRequest, is_confirmed, page, refusal_of
from frontend.reading.sources import report_steps
from frontend.typed_secrets import MOST_TYPED, forget, kept_secret
from frontend.views.sources import source_named

MOST_TRIED, MOST_TRIED_OF_ONE = 3, 2
CONNECT_SECONDS, STATEMENT_SECONDS = 5, 10
# What another kind has, too; the password is kept sealed.
KEPT = tuple(name for name in MAIN if name != "password")
_tried = Places(most=MOST_TRIED, most_each=MOST_TRIED_OF_ONE)


@dataclass(slots=True)
class Entry:
    """report  of the test, once there was one"""

    form: SourceForm
    stored: Datasource | None
    principal: Principal
    report: Report | None = None

    def save(self, *, is_tested: bool) -> Datasource | None:
        """None when the test failed. InvalidRequest names what the services refuse,
        also beside fields that the form itself found wrong."""
        is_whole = self.form.is_valid()
        draft = self._draft()
        if not is_whole:
            return None
        if is_tested:
            self.report = self._try(draft)
            if not self.report.is_ok:
                return None
        test = self.report.as_json() if self.report else None
        if self.stored is None:
            return self._create(test)
        return datasources.update_datasource(
            self.stored.name,
            self._change(),
            by=self.principal.name,
            expected_version=self.stored.version,
            test=test,
        )

    def outcome(self, saved: Datasource) -> str:
        is_new, is_tested = self.stored is None, self.report is not None
        text = {
            (True, True): gettext("Connection test passed. %(name)s was saved."),
            (True, False): gettext("%(name)s was saved without a test."),
            (False, True): gettext("Connection test passed. %(name)s was changed."),
            (False, False): gettext("%(name)s was changed without a test."),
        }[is_new, is_tested]
        return text % {"name": saved.name}

    def _draft(self) -> Datasource:
        if self.stored is None:
            new = self._new()
            if new.name:
                require(self.principal, Privilege.MANAGE, Securable(new.name))
            return datasources.drafted(new)
        row = Datasource.objects.get(pk=self.stored.pk)
        return datasources.drafted_change(row, self._change())

    def _try(self, draft: Datasource) -> Report:
        """A connection test, right now. TransientError while others try."""
        place = _tried.take(self.principal.name)
        if place is None:
            raise TransientError(
                gettext("%(count)s connection tests run already")
                % {"count": MOST_TRIED_OF_ONE},
                code="busy",
                hint=gettext("try again in some seconds"),
            )
        with place:
            access = access_for(draft)
            return run_probe(
                replace(
                    access,
                    connect_timeout=min(access.connect_timeout, CONNECT_SECONDS),
                    statement_timeout=min(access.statement_timeout, STATEMENT_SECONDS),
                )
            )

    def _create(self, test: dict[str, Any] | None) -> Datasource:
        by = self.principal.name
        source = datasources.create_datasource(self._new(), by=by, test=test)
        if test is None:
            start_test(source, by=by)
        return source

    def _new(self) -> NewDatasource:
        """With what is right so far; what is missing counts as empty."""
        data = self.form.cleaned_data
        return NewDatasource(
            name=data.get("name", ""),
            kind=self.form.kind.name,
            host=data.get("host", ""),
            port=data.get("port") or 0,
            database=data.get("database", ""),
            username=data.get("username", ""),
            password=self.form.secret,
            tls=data.get("tls") or "off",
            options=self.form.options(),
        )

    def _change(self) -> DatasourceChange:
        data = self.form.cleaned_data
        return DatasourceChange(
            host=data.get("host"),
            port=data.get("port"),
            database=data.get("database"),
            username=data.get("username"),
            password=self.form.secret or None,
            tls=data.get("tls"),
            options=self.form.options(),
        )


@sensitive_post_parameters("password", "host")
@page("GET", "POST")
def add_source(request: PageRequest) -> HttpResponse:
    if not may_register(request.principal):
        require_admin(request.principal)
    if other := request.POST.get("other_kind"):
        return _switched(request, kind_named(other))
    asked = request.POST.get("kind") or request.GET.get("kind") or "postgresql"
    return _form_page(request, kind_named(asked), None)


def _switched(request: PageRequest, kind: SourceKind) -> HttpResponse:
    """Another kind was chosen: with what was typed so far, of which nothing is checked
    yet."""
    before = kind_named(request.POST.get("kind") or kind.name)
    given = taken_apart(request.POST)
    typed = {name: given.get(name, "")[:MOST_TYPED] for name in KEPT}
    if typed["port"] == str(before.default_port):
        typed["port"] = ""
    initial = initial_of(kind, None) | {k: v for k, v in typed.items() if v}
    kept = _kept_password(request, "")
    return _render(request, kind, SourceForm(kind=kind, initial=initial, kept=kept))


@sensitive_post_parameters("password", "host")
@page("GET", "POST")
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
        taken_apart(request.POST) if request.POST else None,
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
    forget(request, slot)
    messages.success(request, entry.outcome(saved))
    if stored is not None or entry.report is None:
        return redirect("frontend:source", saved.name)
    # what a test has let in is discovered at once, and then the tables are chosen
    start_discovery(saved, by=request.principal.name)
    here = reverse("frontend:source", args=[saved.name])
    return redirect(f"{here}?then=pick")


def _kept_password(request: PageRequest, slot: str) -> str:
    return kept_secret(request, slot, taken_apart(request.POST).get("password", ""))


@page("GET", "POST")
def delete_source(request: PageRequest, name: str) -> HttpResponse:
    source = source_named(request, name)
    require(request.principal, Privilege.MANAGE, Securable(name))
    error: SluiceError | None = None
    if request.method == "POST":
        if is_confirmed(request, name):
            by = request.principal.name
            error = refusal_of(
                request,
                gettext("%(name)s deleted.") % {"name": name},
                lambda: datasources.delete_datasource(name, by=by),
            )
            if error is None:
                return redirect("frontend:sources")
        else:
            error = SluiceError(gettext(NOT_CONFIRMED))
    context = {"source": source, "confirmed": name, "error": error}
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
        "needs": kind.privileges.script(str(user), str(database)),
    }
    has_faults = bool(form.errors or error)
    status = 422 if has_faults and request.method == "POST" else 200
    return render(request, "frontend/sources/form.html", context, status=status)
