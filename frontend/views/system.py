"""For administrators: health, processes, engines and versions; the open sessions."""

from __future__ import annotations

import importlib.metadata
import platform
from typing import Any
from uuid import UUID

import django
from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext

from catalog import health
from core.errors import SluiceError
from frontend.pages import PageRequest, attempt, back, page
from frontend.reading.processes import processes
from frontend.reading.statements import gateway_or_error
from gateway.client import close_session, open_sessions
from ingest.models import DriverIncarnation
from ingest.pipelines.job_selectors import queue_of_jobs

INCARNATIONS = 5
SHOWN = 200  # sessions


@page(for_admins=True)
def system_page(request: PageRequest) -> HttpResponse:
    gateway, gateway_error = gateway_or_error()
    context = {
        "checks": health.readiness(),
        "processes": processes(),
        "drivers": ended_drivers(),
        "gateway": gateway,
        "engines": [gateway["engine"]] if gateway else [],
        "gateway_error": gateway_error,
        "versions": versions(),
        "queue": queue_of_jobs(),
    }
    part = request.htmx and request.htmx.target == "system-live"
    template = "system_live.html" if part else "system.html"
    return render(request, f"frontend/admin/{template}", context)


def versions() -> list[tuple[str, str]]:
    found = [
        ("Sluice", str(settings.SPECTACULAR_SETTINGS["VERSION"])),
        ("Python", platform.python_version()),
        ("Django", django.get_version()),
    ]
    for title, package in (("PySpark", "pyspark"), ("Celery", "celery")):
        found.append((title, importlib.metadata.version(package)))
    return found


def ended_drivers() -> list[DriverIncarnation]:
    """The one that runs is among the processes."""
    ended = DriverIncarnation.objects.exclude(ended_at=None)
    return list(ended.order_by("-started_at")[:INCARNATIONS])


@page(for_admins=True)
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


@page("POST", for_admins=True)
def close_one(request: PageRequest, session_id: UUID) -> HttpResponse:
    attempt(request, gettext("Session closed."), lambda: close_session(str(session_id)))
    return back(request, "sessions")
