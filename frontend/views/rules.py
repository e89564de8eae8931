"""Rules on rows and columns, and what a user sees of a table, for administrators."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import (
    require_http_methods,
    require_POST,
    require_safe,
)

from catalog.access.rules import remove_rule, save_rule
from catalog.models import AccessRule
from core.errors import SluiceError
from frontend.forms.rules import RuleForm
from frontend.pages import PageRequest, admin_page, attempt, numbered_page
from ingest.pipelines.sampling import preview_for

PREVIEW_ROWS = 20


@admin_page
@require_http_methods(["GET", "POST"])
def rule_list(request: PageRequest) -> HttpResponse:
    form = RuleForm(request.POST or None)
    error: SluiceError | None = None
    if request.method == "POST" and form.is_valid():
        try:
            row = save_rule(form.stated, by=request.principal.name)
        except SluiceError as refused:
            error = refused
        else:
            messages.success(
                request, gettext("Saved: %(rule)s.") % {"rule": row}, extra_tags="ok"
            )
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


@admin_page
@require_POST
def rule_remove(request: PageRequest, rule_id: int) -> HttpResponse:
    actor = request.principal.name
    attempt(
        request,
        gettext("Removed, for every statement from now on."),
        lambda: remove_rule(rule_id, by=actor),
    )
    return redirect("frontend:rules")


@admin_page
@require_safe
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
            columns = [{"name": name, "type": kind} for name, kind in sample.columns]
            context |= {"columns": columns, "rows": sample.rows}
    return render(request, "frontend/admin/seen.html", context)
