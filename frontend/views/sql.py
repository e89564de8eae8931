"""SQL: run, explain, watch, cancel, page through results, complete names. The gateway
decides and works.
"""

from __future__ import annotations

from dataclasses import asdict

from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render

from catalog import saved_queries
from catalog.selectors.lookups import table_for
from core.errors import InvalidRequest, SluiceError
from core.sentences import Sentence
from frontend.connect import select_some
from frontend.middleware import style_nonce
from frontend.pages import PageRequest, page
from frontend.reading import completion, statements
from frontend.reading.history import SEARCHED, asked_by
from frontend.reading.query_plan import picture_of, tables_of
from frontend.reading.statements import ResultPage, Shown
from frontend.reading.tables import rows_in
from frontend.reading.tree import level_of

MOST_SAVED, MOST_SHARED = 200, 100
LIMITS = (100, 1_000, 10_000)


@page()
def sql_page(request: PageRequest) -> HttpResponse:
    wanted = request.GET.get("table", "")
    sql = ""
    if wanted.isascii() and wanted.isdigit():
        sql = select_some(table_for(request.principal, int(wanted)))
    elif (saved := request.GET.get("saved", "")[:18]).isascii() and saved.isdigit():
        sql = saved_queries.query_for(request.principal, int(saved)).sql
    context = {"sql": sql, **_around(request)}
    return render(request, "frontend/sql/page.html", context)


@page()
def history(request: PageRequest) -> HttpResponse:
    return render(request, "frontend/sql/history.html", _history(request))


@page()
def names(request: PageRequest) -> HttpResponse:
    """Proposals for what is being typed: `typed`, or columns of `table`."""
    typed = request.GET.get("typed", "")[:300]
    table = request.GET.get("table", "")[:600]
    if table:
        found = completion.columns_for(request.principal, table, typed)
    else:
        tables = request.GET.getlist("in")[: completion.MOST_TABLES]
        found = completion.proposals_for(request.principal, typed, tables)
    response = JsonResponse({"names": [asdict(one) for one in found]})
    response["Cache-Control"] = "private, max-age=20"
    return response


@page("POST")
def run(request: PageRequest) -> HttpResponse:
    sql = request.POST.get("sql", "").strip().rstrip(";").rstrip()
    limit = request.POST.get("row_limit", "")
    if request.POST.get("explain") and not sql.lower().startswith("explain"):
        sql = sql and f"EXPLAIN FORMATTED {sql}"
    try:
        if not sql:
            raise InvalidRequest(Sentence("there is no statement to run"))
        shown = statements.run(
            request.principal.name,
            sql,
            int(limit) if limit in map(str, LIMITS) else LIMITS[1],
            request.session,
        )
    except SluiceError as error:
        return _render(request, None, error=error)
    return _render(request, shown, has_moved=True)


@page()
def statement(request: PageRequest, statement_id: str) -> HttpResponse:
    user, memory = request.principal.name, request.session
    was_open = statements.is_open(statement_id, memory)
    try:
        shown = statements.look(user, statement_id, memory)
    except SluiceError as error:
        return _render(request, None, error=error)
    return _render(request, shown, has_moved=was_open and not shown.is_moving)


@page("POST")
def cancel(request: PageRequest, statement_id: str) -> HttpResponse:
    try:
        user = request.principal.name
        shown = statements.cancel(user, statement_id, request.session)
    except SluiceError as error:
        return _render(request, None, error=error)
    return _render(request, shown, has_moved=not shown.is_moving)


def _as_asked(request: PageRequest, statement_id: str, found: ResultPage) -> ResultPage:
    if request.GET.get("meta") or request.POST.get("meta"):
        return found
    sql = statements.sql_of(statement_id, request.session)
    return statements.without_meta(found, sql)


@page()
def tree(request: PageRequest) -> HttpResponse:
    """One level of the schema tree, read when it is opened."""
    given = request.GET.get
    database, table = given("database", "")[:300], given("table", "")[:300]
    source = given("source", "")[:100]
    level = level_of(request.principal, database, table, source=source)
    context = {"level": level, "is_leaf": bool(table)}
    return render(request, "frontend/sql/tree.html", context)


@page("GET", "POST")
def saved(request: PageRequest) -> HttpResponse:
    """Saved queries: the list; a POST keeps what is in the editor."""
    error: SluiceError | None = None
    if request.method == "POST":
        try:
            saved_queries.keep_query(
                request.principal,
                name=request.POST.get("name", "").strip(),
                sql=request.POST.get("sql", "").strip(),
                is_shared=bool(request.POST.get("is_shared")),
            )
        except SluiceError as refused:
            error = refused
    context = _saved(request) | {"saved_error": error}
    if request.htmx:
        return render(request, "frontend/sql/saved.html", context)
    context |= {"sql": request.POST.get("sql", ""), **_around(request)}
    return render(request, "frontend/sql/page.html", context)


@page("POST")
def change_saved(request: PageRequest, query_id: int) -> HttpResponse:
    """Share it, keep it to oneself, or throw it away."""
    who, what = request.principal, request.POST.get("do", "")
    error: SluiceError | None = None
    try:
        if what == "delete":
            saved_queries.delete_query(who, query_id)
        elif what in {"share", "unshare"}:
            change = {"is_shared": what == "share"}
            saved_queries.change_query(who, query_id, change)
    except SluiceError as refused:
        error = refused
    if not request.htmx:
        return redirect("frontend:sql")
    context = _saved(request) | {"saved_error": error}
    return render(request, "frontend/sql/saved.html", context)


def _saved(request: PageRequest) -> dict[str, object]:
    """Their own come first: what others share never takes their place."""
    own, shared = saved_queries.begun_for(request.principal)
    return {"saved": [*own[:MOST_SAVED], *shared[:MOST_SHARED]]}


def _around(request: PageRequest) -> dict[str, object]:
    """What the whole page needs besides a statement."""
    return {
        "limits": LIMITS,
        "style_nonce": style_nonce(request),
        "level": level_of(request.principal, "", ""),
        **_saved(request),
        **_history(request),
    }


def _history(request: PageRequest) -> dict[str, object]:
    q = request.GET.get("q", "").strip()[:200]
    user = request.principal.name
    found = asked_by(user, request.session, q)
    return {"history": found, "history_q": q, "history_searched": SEARCHED}


def _plan(request: PageRequest, found: ResultPage) -> dict[str, object]:
    """What EXPLAIN answered, as a picture; how many rows tables have, as far as this
    person may see them."""
    if [column["name"] for column in found.columns] != ["plan"] or len(found.rows) != 1:
        return {}
    text = str(found.rows[0][0])
    picture = picture_of(text, rows_in(request.principal, tables_of(text)))
    return {"plan": picture, "plan_text": text} if picture else {}


def _render(
    request: PageRequest,
    shown: Shown | None,
    *,
    error: SluiceError | None = None,
    has_moved: bool = False,
) -> HttpResponse:
    """The part that htmx swaps, or the whole page where there is no htmx. has_moved:
    the history has to say of it what it did not."""
    context: dict[str, object] = {
        "statement": shown,
        "statement_error": error,
        "has_moved": has_moved,
        **(_history(request) if has_moved else {}),
        "downloads": statements.DOWNLOADS,
    }
    number = request.GET.get("number", "0")
    if shown is not None and shown.has_rows:
        try:
            page_of = int(number) if number.isascii() and number.isdigit() else 0
            user = request.principal.name
            found = statements.result_page(user, shown.id, page_of)
            context["result"] = _as_asked(request, shown.id, found)
            context |= _plan(request, found)
        except SluiceError as lost:
            context |= {"statement": None, "statement_error": lost}
    if request.htmx:
        return render(request, "frontend/sql/statement.html", context)
    context |= {"sql": request.POST.get("sql", ""), **_around(request)}
    return render(request, "frontend/sql/page.html", context)
