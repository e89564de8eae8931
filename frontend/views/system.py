"""System: health, driver, engines, versions; for administrators."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from catalog import health
from frontend.pages import PageRequest, admin_page
from frontend.reading.statements import gateway_or_error
from frontend.reading.system import drivers, versions
from ingest.pipelines.job_selectors import queue_of_jobs


@admin_page
@require_safe
def system_page(request: PageRequest) -> HttpResponse:
    gateway, gateway_error = gateway_or_error()
    context = {
        "checks": health.readiness(),
        "drivers": drivers(),
        "gateway": gateway,
        "engines": [gateway["engine"]] if gateway else [],
        "gateway_error": gateway_error,
        "versions": versions(),
        "queue": queue_of_jobs(),
    }
    part = request.htmx and request.htmx.target == "system-live"
    template = "system_live.html" if part else "system.html"
    return render(request, f"frontend/admin/{template}", context)
