"""SQL: run, watch, cancel, page through results."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST, require_safe

from frontend.pages import PageRequest, page


@page
@require_safe
def sql_page(request: PageRequest) -> HttpResponse:
    return render(request, "frontend/sql/page.html", {"sql": "", "history": []})


@page
@require_POST
def run(request: PageRequest) -> HttpResponse:
    return render(request, "frontend/sql/statement.html", {})


@page
@require_safe
def statement(request: PageRequest, statement_id: str) -> HttpResponse:
    return render(request, "frontend/sql/statement.html", {})


@page
@require_POST
def cancel(request: PageRequest, statement_id: str) -> HttpResponse:
    return render(request, "frontend/sql/statement.html", {})
