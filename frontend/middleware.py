"""What pages need around them, and calls of REST by token pass by.

Headers of HTML: nothing is loaded from elsewhere, nothing runs inline, nothing is kept
by shared caches. Sessions with all that hangs on them: CSRF, messages, htmx.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.module_loading import import_string

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'{nonce}",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)


_NONCE = "sluice.style_nonce"


def style_nonce(request: HttpRequest) -> str:
    """What a style element on this page must carry; the page's policy then names it.

    For a script of ours that makes such an element (the SQL editor). It is new for each
    page, so who can write into a page still cannot style it.
    """
    nonce: str = request.META.setdefault(_NONCE, secrets.token_urlsafe(16))
    return nonce


class PageHeadersMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.get("Content-Type", "").startswith("text/html"):
            nonce = request.META.get(_NONCE)
            allowed = POLICY.format(nonce=f" 'nonce-{nonce}'" if nonce else "")
            response.setdefault("Content-Security-Policy", allowed)
            response.setdefault("Cache-Control", "no-store")
        return response


class SessionsMiddleware:
    """SESSION_MIDDLEWARE for every request that no bearer token proves.

    REST takes such a request by its token or refuses it: no session is looked at, so
    there is nothing that CSRF could use. What tells whether the metadata database is
    there does not ask it for a session.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._direct = self._with_session = get_response
        self._view_hooks: list[Callable[..., HttpResponse | None]] = []
        for path in reversed(settings.SESSION_MIDDLEWARE):
            inner: Any = import_string(path)(self._with_session)
            self._with_session = inner
            if hasattr(inner, "process_view"):
                self._view_hooks.insert(0, inner.process_view)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if _is_without_session(request):
            return self._direct(request)
        return self._with_session(request)

    def process_view(
        self, request: HttpRequest, view: Any, args: Any, kwargs: Any
    ) -> HttpResponse | None:
        """What Django asks of each of them before the view; CSRF refuses here."""
        if _is_without_session(request):
            return None
        replies = (hook(request, view, args, kwargs) for hook in self._view_hooks)
        return next((reply for reply in replies if reply is not None), None)


def _is_without_session(request: HttpRequest) -> bool:
    if request.path.startswith("/health/"):
        return True
    scheme = str(request.META.get("HTTP_AUTHORIZATION", ""))[:7]
    is_rest = request.path.startswith("/api/") and request.path != reverse("api-docs")
    return scheme.lower() == "bearer " and is_rest
