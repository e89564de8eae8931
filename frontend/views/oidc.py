"""Sign in at the identity provider and back. What it proves is the catalog's matter.

The departure waits in a short-lived signed cookie: nothing is stored for strangers.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib import auth
from django.core import signing
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from catalog.access.oidc_login import Departure, arrive, depart, logout_url
from catalog.access.oidc_spec import OidcSpec, SignInRefused
from core.errors import SluiceError
from core.sentences import Sentence
from frontend.login_places import arrival_place
from frontend.views.session import BACKEND, login_page, wanted_page

COOKIE = "sluice_sign_in"
SALT = "sluice.oidc"
LASTS_SECONDS = 600
SESSION_MARK = "signed_in_with"


@never_cache
@require_safe
def leave(request: HttpRequest) -> HttpResponse:
    """To the provider."""
    spec = _spec()
    try:
        address, leaving = depart(spec, back=_own(request, "oidc-back"))
    except SluiceError as error:
        return login_page(request, error=error)
    response = HttpResponseRedirect(address)
    kept = {**asdict(leaving), "next": wanted_page(request)}
    response.set_cookie(
        COOKIE,
        signing.dumps(kept, salt=SALT),
        max_age=LASTS_SECONDS,
        path=reverse("frontend:oidc"),
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
    return response


@never_cache
@require_safe
def oidc_callback(request: HttpRequest) -> HttpResponse:
    """From the provider."""
    spec = _spec()
    try:
        kept = _kept(request)
        wanted = kept.pop("next")
        answer = {name: request.GET[name] for name in request.GET}
        back = _own(request, "oidc-back")
        with arrival_place(request):
            user = arrive(spec, Departure(**kept), answer, back=back)
    except SluiceError as error:
        response = login_page(request, error=error)
    else:
        auth.login(request, user, backend=BACKEND)
        # a moment, not a duration: that would begin anew whenever the session is saved
        lasts = timedelta(seconds=spec.session_seconds)
        request.session.set_expiry(datetime.now(UTC) + lasts)
        request.session[SESSION_MARK] = spec.provider
        response = HttpResponseRedirect(wanted)
    response.delete_cookie(COOKIE, path=reverse("frontend:oidc"))
    return response


@never_cache
@require_safe
def leave_for_good(request: HttpRequest) -> HttpResponse:
    """To where the provider ends its own session."""
    try:
        address = logout_url(_spec(), back=_own(request, "login"))
    except SluiceError as error:
        return login_page(request, error=error)
    return HttpResponseRedirect(address or reverse("frontend:login"))


def _spec() -> OidcSpec:
    if settings.SLUICE_OIDC is None:
        raise Http404
    return settings.SLUICE_OIDC


def _own(request: HttpRequest, name: str) -> str:
    """Our address as the browser knows it: the provider compares it literally."""
    path = reverse(f"frontend:{name}")
    if settings.SLUICE_PUBLIC_URL:
        return f"{settings.SLUICE_PUBLIC_URL}{path}"
    return request.build_absolute_uri(path)


def _kept(request: HttpRequest) -> dict[str, Any]:
    text = request.COOKIES.get(COOKIE, "")
    try:
        kept: dict[str, Any] = signing.loads(text, salt=SALT, max_age=LASTS_SECONDS)
    except signing.BadSignature:
        raise SignInRefused(
            Sentence("it did not begin in this browser, or too long ago"),
            "no_departure",
        ) from None
    return kept
