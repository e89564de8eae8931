"""The gateway's open sessions, for administrators: who is in and what runs."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from core.errors import SluiceError
from frontend.pages import PageRequest, admin_page, attempt, back
from gateway.client import close_session, open_sessions

SHOWN = 200


@admin_page
@require_safe
def session_list(request: PageRequest) -> HttpResponse:
    found: list[dict[str, Any]] = []
    error: SluiceError | None = None
    user = request.GET.get("user", "").strip()[:150]
    try:
        found = [one for one in open_sessions() if user in ("", one["user"])]
    except SluiceError as away:
        error = away
    context = {
        "sessions": found[:SHOWN],
        "count": len(found),
        "has_more": len(found) > SHOWN,
        "user": user,
        "error": error,
    }
    part = request.htmx and request.htmx.target == "sessions-live"
    template = "sessions_live.html" if part else "sessions.html"
    return render(request, f"frontend/admin/{template}", context)


@admin_page
@require_POST
def close(request: PageRequest, session_id: UUID) -> HttpResponse:
    attempt(request, gettext("Session closed."), lambda: close_session(str(session_id)))
    return back(request, "sessions")
