"""A user's own account: groups, grants and tokens."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_POST

from catalog.access.grants import rows_for
from catalog.access.tokens import NewToken, create_token, delete_token
from catalog.models import ApiToken
from core.errors import SluiceError
from frontend.forms.people import TokenForm
from frontend.pages import PageRequest, attempt, back, page


@page
@require_http_methods(["GET", "POST"])
def token_list(request: PageRequest) -> HttpResponse:
    """The new token is in the reply to its own POST and nowhere else."""
    form = TokenForm(request.POST or None)
    new: NewToken | None = None
    error: SluiceError | None = None
    if request.method == "POST" and form.is_valid():
        try:
            new = create_token(
                request.user, **form.cleaned_data, by=request.principal.name
            )
            form = TokenForm()
        except SluiceError as refused:
            error = refused
    grants = rows_for(request.principal).order_by("datasource", "database", "table")
    context = {
        "tokens": ApiToken.objects.filter(user=request.user).order_by("-created_at"),
        "new": new,
        "form": form,
        "error": error,
        "grants": grants[:500],
        "groups": sorted(request.principal.groups),
    }
    return render(request, "frontend/admin/tokens.html", context)


@page
@require_POST
def delete(request: PageRequest, token_id: int) -> HttpResponse:
    attempt(
        request,
        gettext("Token revoked."),
        lambda: delete_token(token_id, by=request.user),
    )
    return back(request, "tokens")
