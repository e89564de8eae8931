"""Home: what is carried, what moves, what needs somebody."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from catalog.access.enforcement import may_register
from frontend.pages import PageRequest, page
from frontend.reading.first_steps import first_steps
from frontend.reading.overview import overview_for


@page
@require_safe
def home(request: PageRequest) -> HttpResponse:
    context: dict[str, object] = {
        "home": overview_for(request.principal),
        "can_register": may_register(request.principal),
    }
    part = request.htmx and request.htmx.target == "home-live"
    if not part:
        context["steps"] = first_steps(request.principal)
    template = "home_live.html" if part else "home.html"
    return render(request, f"frontend/{template}", context)
