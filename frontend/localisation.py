"""Shows each page in its reader's language and time zone.

A user's own setting goes first, then what the browser says. REST goes by the header
`Accept-Language` of each request (`ApiView.finalize_response`), in UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from urllib.parse import unquote
from zoneinfo import ZoneInfo

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.utils import timezone, translation
from django.utils.cache import patch_vary_headers

from catalog.preferences import Chosen, preferences_of
from core.time_zones import zone_names

ZONE_COOKIE = "sluice-zone"  # theme.js writes it
_SLOT = "preferences"


class LocalisationMiddleware:
    """Runs inside the session's middleware, which knows the user."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path.startswith("/api/") and not request.path.endswith("/docs"):
            with translation.override("en"):
                return self.get_response(request)
        chosen = _chosen(request)
        language = chosen.language or translation.get_language_from_request(request)
        zone = ZoneInfo(chosen.timezone or browser_zone(request) or "UTC")
        with translation.override(language), timezone.override(zone):
            response = self.get_response(request)
        response.headers.setdefault("Content-Language", language)
        patch_vary_headers(response, ("Accept-Language", "Cookie"))
        return response


def browser_zone(request: HttpRequest) -> str:
    """Return the zone that the browser's cookie names; "" without a valid one."""
    name = unquote(request.COOKIES.get(ZONE_COOKIE, ""))
    return name if name in zone_names() else ""


def remember_at_login(request: HttpRequest, user: User, **_: object) -> None:
    remember(request, preferences_of(user))


def remember(request: HttpRequest, chosen: Chosen) -> None:
    """Keep the choice in the session, so that no page has to read it again."""
    request.session[_SLOT] = asdict(chosen)


def _chosen(request: HttpRequest) -> Chosen:
    if not isinstance(request.user, User):
        return Chosen()
    kept = request.session.get(_SLOT)
    return Chosen(**kept) if kept else preferences_of(request.user)
