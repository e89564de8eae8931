"""Grants and the audit trail, for administrators."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.models import Group, User
from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext

from catalog.access.effective import explained, principal_named
from catalog.access.existence import names_like
from catalog.access.grants import grant, parse_securable, revoke
from catalog.models import AuditEntry, Grant
from core.errors import SluiceError
from frontend.forms.people import GrantForm
from frontend.pages import PageRequest, attempt, back, numbered_page, page
from frontend.reading.people import people_like

DOORS = ("web", "rest", "gateway", "cli")


@page("GET", "POST", for_admins=True)
def grant_list(request: PageRequest) -> HttpResponse:
    form = GrantForm(request.POST or None, initial={"privilege": "select"})
    error: SluiceError | None = None
    if request.method == "POST" and form.is_valid():
        try:
            given = {k: form.cleaned_data[k] for k in ("principal", "privilege", "on")}
            columns = form.column_names
            row = grant(**given, columns=columns, by=request.principal.name)
        except SluiceError as refused:
            error = refused
        else:
            messages.success(request, gettext("Granted: %(grant)s.") % {"grant": row})
            return back(request, "grants")
    rows = Grant.objects.order_by("principal_kind", "principal_name", "id")
    q = request.GET.get("q", "").strip()
    if q:
        rows = rows.filter(principal_name__icontains=q)
    context = {
        "grants": numbered_page(request, rows),
        "form": form,
        "error": error,
        "q": q,
        "users": User.objects.order_by("username")[:500],
        "groups": Group.objects.order_by("name")[:500],
    }
    return render(request, "frontend/admin/grants.html", context)


@page(for_admins=True)
def securable_names(request: PageRequest) -> HttpResponse:
    """Options that complete what is typed into "On"."""
    typed = request.GET.get("on", "").strip()[:600]
    context = {"names": names_like(typed)}
    return render(request, "frontend/admin/securables.html", context)


@page(for_admins=True)
def people_to_pick(request: PageRequest) -> HttpResponse:
    """Boxes of groups and users whose names contain what is typed; ticked ones stay."""
    ticked = request.GET.getlist("principal")
    context = {"people": people_like(request.GET.get("who", ""), ticked)}
    return render(request, "frontend/admin/people_to_pick.html", context)


@page(for_admins=True)
def effective_rights(request: PageRequest) -> HttpResponse:
    """What a user may do on an object, and by which grants."""
    asked = {name: request.GET.get(name, "").strip()[:700] for name in ("who", "on")}
    context: dict[str, object] = {"asked": asked}
    if all(asked.values()):
        try:
            principal = principal_named(asked["who"])
            found = explained(principal, parse_securable(asked["on"]))
            context |= {"rights": found.privileges, "found": found}
        except SluiceError as refused:
            context["error"] = refused
    return render(request, "frontend/admin/effective.html", context)


@page("POST", for_admins=True)
def revoke_grant(request: PageRequest, grant_id: int) -> HttpResponse:
    actor = request.principal.name
    attempt(
        request,
        gettext("Revoked, for every statement from now on."),
        lambda: revoke(grant_id, by=actor),
    )
    return back(request, "grants")


@page(for_admins=True)
def audit_list(request: PageRequest) -> HttpResponse:
    names = ("actor", "action", "object", "door", "outcome")
    wanted = {name: request.GET.get(name, "").strip()[:600] for name in names}
    rows = AuditEntry.objects.order_by("-at", "-id")
    if wanted["actor"]:
        rows = rows.filter(actor=wanted["actor"])
    if wanted["action"]:
        rows = rows.filter(action__startswith=wanted["action"])
    if wanted["object"]:
        rows = rows.filter(object__icontains=wanted["object"])
    if wanted["door"] in DOORS:
        rows = rows.filter(door=wanted["door"])
    if wanted["outcome"] == "denied":
        rows = rows.filter(is_allowed=False)
    context = {
        "doors": DOORS,
        "entries": numbered_page(request, rows),
        "wanted": wanted,
    }
    return render(request, "frontend/admin/audit.html", context)
