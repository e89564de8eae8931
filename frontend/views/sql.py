"""SQL: run, watch, cancel, page through results. The gateway decides and works."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST, require_safe

from catalog.selectors import table_for
from core.errors import InvalidRequest, SluiceError
from frontend.connect import select_some
from frontend.pages import PageRequest, page
from frontend.reading import statements
from frontend.reading.statements import Shown

LIMITS = (100, 1_000, 10_000)


@page
@require_safe
def sql_page(request: PageRequest) -> HttpResponse:
    wanted = request.GET.get("table", "")
    sql = ""
    if wanted.isascii() and wanted.isdigit():
        sql = select_some(table_for(request.principal, int(wanted)))
    context = {
        "sql": sql,
        "limits": LIMITS,
        "history": statements.history_of(request.session),
    }
    return render(request, "frontend/sql/page.html", context)


@page
@require_POST
def run(request: PageRequest) -> HttpResponse:
    sql = request.POST.get("sql", "").strip()
    limit = request.POST.get("row_limit", "")
    try:
        if not sql:
            raise InvalidRequest("there is no statement to run")
        shown = statements.run(
            request.principal.name,
            sql,
            int(limit) if limit in map(str, LIMITS) else LIMITS[1],
            request.session,
        )
    except SluiceError as error:
        return _render(request, None, error=error)
    return _render(request, shown, is_new=True)


@page
@require_safe
def statement(request: PageRequest, statement_id: str) -> HttpResponse:
    try:
        user = request.principal.name
        shown = statements.look(user, statement_id, request.session)
    except SluiceError as error:
        return _render(request, None, error=error)
    return _render(request, shown)


@page
@require_POST
def cancel(request: PageRequest, statement_id: str) -> HttpResponse:
    try:
        user = request.principal.name
        shown = statements.cancel(user, statement_id, request.session)
    except SluiceError as error:
        return _render(request, None, error=error)
    return _render(request, shown)


def _render(
    request: PageRequest,
    shown: Shown | None,
    *,
    error: SluiceError | None = None,
    is_new: bool = False,
) -> HttpResponse:
    """The part that htmx swaps, or the whole page where there is no htmx."""
    context: dict[str, object] = {
        "statement": shown,
        "statement_error": error,
        "history": statements.history_of(request.session),
        "is_new": is_new,
    }
    number = request.GET.get("number", "0")
    if shown is not None and shown.has_rows:
        try:
            context["result"] = statements.result_page(
                request.principal.name,
                shown.id,
                int(number) if number.isascii() and number.isdigit() else 0,
            )
        except SluiceError as lost:
            context |= {"statement": None, "statement_error": lost}
    if request.htmx:
        return render(request, "frontend/sql/statement.html", context)
    context |= {"sql": request.POST.get("sql", ""), "limits": LIMITS}
    return render(request, "frontend/sql/page.html", context)
