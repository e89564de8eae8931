"""REST to look at and try out: Swagger UI over `/api/v1/schema`, as the one who asks.

Nothing is loaded from elsewhere: its files come from a package (ADR 6).
"""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from frontend.pages import PageRequest, page


@page
@require_GET
def api_docs(request: PageRequest) -> HttpResponse:
    return render(request, "frontend/api_docs.html")
