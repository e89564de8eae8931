"""A user's own account: grants, tokens, language and time zone."""

from __future__ import annotations

from dataclasses import asdict, replace

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.utils import translation
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from catalog.access.grants import rows_for
from catalog.access.own_password import change_own_password
from catalog.access.tokens import NewToken, create_token, delete_token
from catalog.models import ApiToken
from catalog.preferences import Chosen, languages, preferences_of, save_preferences
from core.errors import SluiceError
from frontend.forms.people import PasswordForm, PreferencesForm, TokenForm
from frontend.localisation import remember
from frontend.pages import PageRequest, attempt, back, page, refusal_of

YEAR = 365 * 24 * 3600


@page("GET", "POST")
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


@page("POST")
def token_delete(request: PageRequest, token_id: int) -> HttpResponse:
    attempt(
        request,
        gettext("Token revoked."),
        lambda: delete_token(token_id, by=request.user),
    )
    return back(request, "tokens")


@page("GET", "POST")
def preferences(request: PageRequest) -> HttpResponse:
    initial = asdict(preferences_of(request.user))
    form = PreferencesForm(request.POST or None, initial=initial)
    if request.method == "POST" and form.is_valid():
        _save(request, request.user, form.chosen)
        with translation.override(form.chosen.language or translation.get_language()):
            messages.success(request, gettext("Preferences saved."))
        return redirect("frontend:preferences")
    return render(request, "frontend/preferences.html", {"form": form})


@sensitive_post_parameters("current", "new")
@page("GET", "POST")
def password(request: PageRequest) -> HttpResponse:
    """One's own. Ends all sessions, this one too."""
    form = PasswordForm(request.POST or None)
    error: SluiceError | None = None
    if request.method == "POST" and form.is_valid():
        error = refusal_of(
            request,
            gettext("Password changed. Log in with the new one."),
            lambda: change_own_password(request.user, **form.cleaned_data, door="ui"),
        )
        if error is None:
            return redirect("frontend:login")
    return render(request, "frontend/password.html", {"form": form, "error": error})


@require_POST
def switch_language(request: HttpRequest) -> HttpResponse:
    """Change the language from any page, before the log-in too."""
    wanted = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(wanted, allowed_hosts={request.get_host()}):
        wanted = settings.LOGIN_REDIRECT_URL
    response = HttpResponseRedirect(wanted)
    language = request.POST.get("language", "")
    if language not in languages():
        return response
    if isinstance(request.user, User):
        _save(
            request,
            request.user,
            replace(preferences_of(request.user), language=language),
        )
    response.set_cookie(
        settings.LANGUAGE_COOKIE_NAME,
        language,
        max_age=YEAR,
        samesite="Lax",
        httponly=True,
        secure=settings.SESSION_COOKIE_SECURE,
    )
    return response


def _save(request: HttpRequest, user: User, chosen: Chosen) -> None:
    save_preferences(user, chosen)
    remember(request, chosen)
