"""How to connect a client, whatever it will ask. The lines are `frontend.connect`'s."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from frontend.connect import client_snippets
from frontend.pages import PageRequest, page


@page
@require_GET
def connect(request: PageRequest) -> HttpResponse:
    context = {
        "snippets": client_snippets(request, "default", "SHOW DATABASES"),
        "has_tls": bool(settings.SLUICE_TLS_CERTIFICATE),
    }
    return render(request, "frontend/connect.html", context)
