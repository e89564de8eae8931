"""Home: what is synced, what runs, what needs attention; and the ways to connect.

The page of REST loads nothing from elsewhere: its files come from a package (ADR 6).
"""

from __future__ import annotations

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import render

from catalog.access.enforcement import may_register
from frontend.connect import client_snippets
from frontend.pages import PageRequest, page
from frontend.reading.finder import find
from frontend.reading.first_steps import first_steps
from frontend.reading.overview import overview_for
from frontend.reading.routes import SPANS, routes_shown


@page()
def home(request: PageRequest) -> HttpResponse:
    span = SPANS.get(request.GET.get("range", ""), SPANS["1h"])
    routes = routes_shown(request.principal, span)
    context: dict[str, object] = {
        "home": overview_for(request.principal),
        "routes": routes,
        "spans": SPANS,
        "can_register": may_register(request.principal),
    }
    part = request.htmx and request.htmx.target == "home-live"
    if not part and not routes.rows:
        context["steps"] = first_steps(request.principal)
    template = "home_live.html" if part else "home.html"
    return render(request, f"frontend/{template}", context)


@page()
def steps(request: PageRequest) -> HttpResponse:
    """The first steps for who has begun; home shows them last and need not wait."""
    context = {"steps": first_steps(request.principal), "is_last": True}
    return render(request, "frontend/first_steps.html", context)


@page()
def find_anything(request: PageRequest) -> HttpResponse:
    """Results of the search at the top, while one types."""
    groups = find(request.principal, request.GET.get("q", ""))
    return render(request, "frontend/parts/found.html", {"groups": groups})


@page("GET")
def connect(request: PageRequest) -> HttpResponse:
    """How to connect a client; the lines are `frontend.connect`'s."""
    context = {
        "snippets": client_snippets(request, "default", "SHOW DATABASES"),
        "has_tls": bool(settings.SLUICE_TLS_CERTIFICATE),
    }
    return render(request, "frontend/connect.html", context)


@page("GET")
def api_docs(request: PageRequest) -> HttpResponse:
    """REST to read and try out, as the user: Swagger UI over `/api/v1/schema`."""
    return render(request, "frontend/api_docs.html")
