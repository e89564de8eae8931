"""REST of statements: submit, look, read results page by page, cancel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any

from django.http import HttpResponse, HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers as s
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.api import replies as shared
from catalog.api.idempotency import idempotent
from catalog.api.serializers import Text, Whole
from catalog.api.stream_limit import Places
from catalog.api.views import PAGING, AdminView, ApiView, body_of, members_of, page_size
from catalog.selectors.paging import key_of, key_token
from core.errors import InvalidRequest
from gateway import client
from gateway.api import replies
from gateway.api.downloads import FORMATS, XLSX, download_of, send

LONGEST_STATEMENT = 1_000_000
LONGEST_WAIT = 30
# Who waits holds a thread of the web process.
WAITS = Places(most=5, most_each=3)
HANG_UP = "sluice.hang_up"  # as the web server has it


class StatementNew(s.Serializer[Any]):
    """A statement to run; `row_limit` bounds the rows that are kept, all without it."""

    sql = Text(max_length=LONGEST_STATEMENT)
    wait_seconds = s.FloatField(
        required=False,
        default=0.0,
        min_value=0,
        help_text=f"more than {LONGEST_WAIT} waits {LONGEST_WAIT} s",
    )
    row_limit = Whole(required=False, allow_null=True, default=None, min_value=1)
    database = Text(required=False, default="", allow_blank=True, max_length=200)


class FormatIsOurs(DefaultContentNegotiation):
    """`?format=` is a parameter of results here, not a choice of renderer."""

    def filter_renderers(
        self, renderers: Iterable[BaseRenderer], format: str
    ) -> list[BaseRenderer]:
        """Keep all renderers."""
        return list(renderers)

    def select_renderer(  # type: ignore[override]  # as the stubs' base has it
        self,
        request: Request,
        renderers: Sequence[BaseRenderer],
        format_suffix: str | None = None,
    ) -> tuple[BaseRenderer, str]:
        """A file is sent whatever `Accept` says; only problems are rendered then."""
        if request.query_params.get("format", "json") != "json":
            return renderers[0], renderers[0].media_type
        chosen: tuple[BaseRenderer, str] = super().select_renderer(
            request, renderers, format_suffix
        )
        return chosen


class StatementsView(ApiView):
    @extend_schema(
        request=StatementNew, responses={200: replies.Statement, 202: replies.Statement}
    )
    @idempotent
    def post(self, request: Request) -> Response:
        """Run a statement: 200 when it ended within `wait_seconds`, else 202.

        It is answered at once while many wait already, and with an `Idempotency-Key`.
        """
        given = body_of(StatementNew, request)
        is_repeatable = "Idempotency-Key" in request.headers
        statement = submitted(self.principal.name, given, is_repeatable=is_repeatable)
        is_over = statement["state"] not in {"INITIALIZED", "PENDING", "RUNNING"}
        return Response(
            replies.Statement.body(statement), status=200 if is_over else 202
        )


def submitted(
    user: str, given: dict[str, Any], *, is_repeatable: bool = False
) -> dict[str, Any]:
    """Run it; answered at once, whatever was asked, when too many wait already, or when
    repetitions of the call, each in a thread, would wait for the first one's end."""
    may_wait = given["wait_seconds"] and not is_repeatable
    place = WAITS.take(user) if may_wait else None
    with place or nullcontext():
        return client.submit_statement(
            user,
            given["sql"],
            wait_seconds=min(LONGEST_WAIT, given["wait_seconds"]) if place else 0.0,
            row_limit=given["row_limit"],
            database=given["database"],
        )


class StatementView(ApiView):
    @extend_schema(responses=replies.Statement)
    def get(self, request: Request, id: str) -> Response:
        """The statement as it stands."""
        found = client.statement_of(self.principal.name, str(id))
        return Response(replies.Statement.body(found))


class ResultsView(ApiView):
    """Rows of a finished statement, page by page; `format=csv`, `parquet`, `arrow`
    or `xlsx` is the whole stored result as a file. `X-Sluice-Truncated` tells that
    rows were left out by `row_limit`."""

    queries = frozenset({"page_token", "format"})
    content_negotiation_class = FormatIsOurs

    @extend_schema(
        responses={
            (200, "application/json"): replies.ResultPage,
            (200, "text/csv"): OpenApiTypes.STR,
            (200, "application/vnd.apache.parquet"): OpenApiTypes.BINARY,
            (200, "application/vnd.apache.arrow.stream"): OpenApiTypes.BINARY,
            (200, XLSX): OpenApiTypes.BINARY,
        }
    )
    def get(self, request: Request, id: str) -> HttpResponseBase:
        wanted = request.query_params.get("format", "json")
        token = request.query_params.get("page_token", "")
        if wanted == "json":
            page = client.results_of(self.principal.name, str(id), page=_page(token))
            return Response(replies.ResultPage.body(page))
        if wanted not in FORMATS:
            hint = ", ".join(["json", *FORMATS])
            raise InvalidRequest("format is '%(name)s'", name=wanted[:40], hint=hint)
        if token:
            raise InvalidRequest("a file has no pages: leave page_token away")
        file = download_of(self.principal.name, str(id), wanted)
        if request.method == "HEAD":
            return HttpResponse(headers=file.headers)
        return send(file, hang_up=request.META.get(HANG_UP))


class CancelView(ApiView):
    @extend_schema(request=None, responses=replies.Statement)
    def post(self, request: Request, id: str) -> Response:
        """Stop a statement; one that ended already stays as it is."""
        members_of(request)
        found = client.cancel_statement(self.principal.name, str(id))
        return Response(replies.Statement.body(found))


def _page(token: str) -> int:
    if not token:
        return 0
    number = token.removeprefix("p")
    if number == token or not number.isascii() or not number.isdigit():
        raise InvalidRequest(
            "page_token is not one of this statement's",
            code="invalid_page_token",
            hint="take it from next_page_token",
        )
    return int(number[:9])


# --------------------------------------------------------------------- open sessions


_SCOPE = "sessions"


class SessionsView(AdminView):
    """Sessions over HiveServer2, the oldest first."""

    queries = PAGING | {"user"}

    @extend_schema(responses=shared.page_of(replies.Session))
    def get(self, request: Request) -> Response:
        given = request.query_params
        if given.get("sort", "opened_at") != "opened_at":
            raise InvalidRequest(
                "sessions have one order", code="invalid_sort", hint="opened_at"
            )
        size, after = page_size(request), key_of(given.get("page_token"), _SCOPE)
        found = [
            one
            for one in client.open_sessions()
            if [one["opened_at"], one["id"]] > after
            and given.get("user", one["user"]) == one["user"]
        ]
        last = found[size - 1] if len(found) > size else None
        token = key_token([last["opened_at"], last["id"]], _SCOPE) if last else None
        items = [replies.Session.body(one) for one in found[:size]]
        return Response({"items": items, "next_page_token": token})


class SessionView(AdminView):
    @extend_schema(responses={204: None})
    def delete(self, request: Request, id: str) -> Response:
        """End the session and its statements; audited."""
        client.close_session(str(id))
        return Response(status=204)
