"""Rules on rows and columns, and what a user sees of a table, for administrators."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext

from catalog.access.rules import remove_rule, save_rule
from catalog.models import AccessRule
from core.errors import SluiceError
from core.translation import translated
from frontend.forms.rules import RuleForm
from frontend.pages import PageRequest, attempt, numbered_page, page
from ingest.pipelines.sampling import preview_for

PREVIEW_ROWS = 20
UNKNOWN = {"unknown_name", "unknown_column"}  # what to do is told for REST


@page("GET", "POST", for_admins=True)
def rule_list(request: PageRequest) -> HttpResponse:
    form = RuleForm(request.POST or None)
    error: SluiceError | None = None
    if request.method == "POST" and form.is_valid():
        try:
            row = save_rule(form.stated, by=request.principal.name)
        except SluiceError as refused:
            if refused.code in UNKNOWN:
                form.add_error("on", translated(refused.message))
            else:
                error = refused
        else:
            messages.success(request, gettext("Saved: %(rule)s.") % {"rule": row})
            return redirect("frontend:rules")
    rows = AccessRule.objects.order_by(
        "datasource", "database", "table", "column", "id"
    )
    if q := request.GET.get("q", "").strip()[:300]:
        rows = rows.filter(table__icontains=q)
    context = {
        "rules": numbered_page(request, rows),
        "form": form,
        "error": error,
        "q": q,
        "users": User.objects.order_by("username")[:500],
    }
    return render(request, "frontend/admin/rules.html", context)


@page("POST", for_admins=True)
def rule_remove(request: PageRequest, rule_id: int) -> HttpResponse:
    actor = request.principal.name
    attempt(
        request,
        gettext("Removed, for every statement from now on."),
        lambda: remove_rule(rule_id, by=actor),
    )
    return redirect("frontend:rules")


@page(for_admins=True)
def seen_by(request: PageRequest) -> HttpResponse:
    """Rows of a table as a user sees them."""
    asked = {name: request.GET.get(name, "").strip()[:700] for name in ("who", "on")}
    context: dict[str, object] = {"asked": asked}
    if all(asked.values()):
        try:
            sample = preview_for(
                asked["who"],
                asked["on"],
                by=request.principal.name,
                limit=PREVIEW_ROWS,
            )
        except SluiceError as refused:
            context["failure"] = refused
        else:
            context |= {"columns": sample.columns, "rows": sample.rows}
    return render(request, "frontend/admin/seen.html", context)
