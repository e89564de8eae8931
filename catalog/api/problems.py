"""Errors as RFC 9457 problem details: code, hint, request_id, errors[]; no stacks.

The one place that turns the error tree into HTTP statuses.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.template import loader
from django.utils import translation
from django.views import defaults
from rest_framework import exceptions
from rest_framework.response import Response

from core.context import current
from core.errors import (
    AccessDenied,
    IllegalTransition,
    InvalidRequest,
    NotFound,
    SluiceError,
    StaleState,
    TerminalError,
    TransientError,
)
from core.json_values import below
from core.redaction import redact
from core.sentences import Sentence, as_sentence, joined

_DISK_FULL = "53100"
_AT = Sentence("%(pointer)s: %(detail)s")
log = logging.getLogger("sluice.rest")
CONTENT_TYPE = "application/problem+json"

BY_CODE: dict[str, int] = {
    "not_yet": 501,
    "group_in_rules": 409,
    "name_taken": 409,
    "in_use": 409,
    "last_admin": 409,
    "bad_credentials": 401,
    "unauthenticated": 401,
    "too_many_attempts": 429,
    "too_many_downloads": 429,
    "too_many_requests": 429,
    "body_too_large": 413,
    "precondition_failed": 412,
    "idempotency_key_reused": 422,
    "database_unavailable": 503,
    "database_full": 503,
}
BY_CLASS: tuple[tuple[type[SluiceError], int], ...] = (
    (InvalidRequest, 400),
    (NotFound, 404),
    (AccessDenied, 403),
    (StaleState, 409),
    (IllegalTransition, 409),
    (TransientError, 503),
    (TerminalError, 500),
    (SluiceError, 500),
)
_CODES = {
    400: "invalid_request",
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    415: "unsupported_media_type",
    429: "too_many_requests",
    500: "internal_error",
}
TITLES = frozenset(
    HTTPStatus(status).phrase
    for status in (*BY_CODE.values(), *(status for _, status in BY_CLASS), *_CODES)
)
_HINTS = {
    401: "send Authorization: Bearer slt_…",
    404: "see GET /api/v1/schema for what there is",
    415: "send application/json",
}


# For errors that say what is wrong by their pointers alone.
_HINT_OF = {
    "invalid_request": "correct what 'detail' and 'errors' name, and send it again",
    "unknown_field": "leave the field out; /api/v1/schema lists those of each request",
    "unknown_table": "see GET /api/v1/tables?q= for tables and their names",
    "already_onboarded": "see GET /api/v1/onboardings for what syncs it",
}


def status_of(error: SluiceError) -> int:
    if error.code in BY_CODE:
        return BY_CODE[error.code]
    return next(status for kind, status in BY_CLASS if isinstance(error, kind))


def problem_body(
    status: int,
    *,
    code: str,
    detail: str,
    hint: str = "",
    more: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """The members of a problem; `more` adds facts, among them `errors`."""
    body: dict[str, object] = {
        "type": f"urn:sluice:problem:{code}",
        "title": Sentence(HTTPStatus(status).phrase),
        "status": status,
        "detail": _redacted(detail),
        "code": code,
        "hint": _redacted(hint),
        "request_id": current().request_id,
    }
    reserved = set(body)
    body |= {k: v for k, v in (more or {}).items() if k not in reserved}
    errors = body.get("errors") or []
    body["errors"] = list(map(_told, errors)) if isinstance(errors, list) else errors
    return body


def _told(error: Any) -> Any:
    """A detail without parameters is a sentence, too."""
    if not isinstance(error, Mapping) or not isinstance(error.get("detail"), str):
        return error
    return {**error, "detail": as_sentence(error["detail"])}


def _redacted(text: str) -> str:
    """A sentence stays one, unless it has something to hide."""
    shown = redact(text)
    return as_sentence(text) if shown == text else shown


def problem_of(error: Exception) -> tuple[dict[str, object], dict[str, str]]:
    """Body and headers for any exception; what is not foreseen says nothing."""
    if isinstance(error, SluiceError):
        status = status_of(error)
        body = problem_body(
            status,
            code=error.code,
            detail=error.message,
            hint=error.hint or _HINT_OF.get(error.code, ""),
            more=error.facts,
        )
        return body, _headers(status, error.facts.get("retry_after_seconds"))
    if isinstance(error, RecursionError):
        error = exceptions.ParseError("the body is nested too deeply")
    if isinstance(error, Http404):
        error = exceptions.NotFound()
    if isinstance(error, PermissionDenied):
        error = exceptions.PermissionDenied()
    if isinstance(error, exceptions.APIException):
        return _of_framework(error)
    if isinstance(error, OperationalError | InterfaceError):
        log.error("the metadata database failed: %s", error)
        return _of_database(error), _headers(503, 5)
    log.error("unforeseen error", exc_info=error)
    body = problem_body(
        500,
        code="internal_error",
        detail="something failed that should not",
        hint="the log has more under this request_id",
    )
    return body, {}


def _of_database(error: Exception) -> dict[str, object]:
    if getattr(error.__cause__, "sqlstate", None) == _DISK_FULL:
        return problem_body(
            503,
            code="database_full",
            detail="the disk of the metadata database is full: nothing was changed",
            hint="free space on its server, then try again; what drivers did until then"
            " is kept and reported then",
        )
    return problem_body(
        503,
        code="database_unavailable",
        detail="the metadata database cannot be reached or is too busy",
        hint="try again; see /health/ready",
    )


def problem_response(error: Exception, context: Mapping[str, Any]) -> Response:
    """DRF's exception handler."""
    body, headers = problem_of(error)
    if (given := getattr(error, "auth_header", None)) is not None:
        headers["WWW-Authenticate"] = str(given)
    status = int(str(body["status"]))
    return Response(body, status=status, headers=headers, content_type=CONTENT_TYPE)


def _of_framework(
    error: exceptions.APIException,
) -> tuple[dict[str, object], dict[str, str]]:
    status = error.status_code
    errors: list[dict[str, str]] = []
    detail: str = Sentence(str(error.detail))
    if isinstance(error, exceptions.ValidationError):
        errors = list(flattened(error.detail, ""))
        parts = ((e["pointer"], as_sentence(e["detail"])) for e in errors[:5])
        detail = joined(Sentence(_AT, pointer=at, detail=said) for at, said in parts)
    code = _CODES.get(status, "error")
    body = problem_body(
        status,
        code=code,
        detail=detail,
        hint=_HINTS.get(status) or _HINT_OF.get(code, ""),
        more={"errors": errors},
    )
    headers = _headers(status, getattr(error, "wait", None))
    return body, headers


def flattened(detail: Any, at: str) -> list[dict[str, str]]:
    """DRF's nested errors as (JSON pointer, text)."""
    if isinstance(detail, Mapping):
        return [
            item
            for key, value in detail.items()
            for item in flattened(
                value, at if key == "non_field_errors" else below(at, key)
            )
        ]
    if isinstance(detail, list):
        return [item for value in detail for item in flattened(value, at)]
    return [{"pointer": at or "/", "detail": str(detail)}]


def _headers(status: int, retry_after: object) -> dict[str, str]:
    headers: dict[str, str] = {}
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="sluice"'
    if isinstance(retry_after, int | float):
        headers["Retry-After"] = str(int(retry_after))
    return headers


# ---------------------------------------------------------------- outside of DRF
def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """handler404: a problem for programs, a page for people."""
    if request.path.startswith("/api/"):
        return _plain(404, "not_found", "there is nothing at this address")
    return defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponse:
    """handler500, the same way; 503 with what to do while the metadata database is
    away, which no page can be shown without."""
    error = sys.exception()
    away = error if isinstance(error, OperationalError | InterfaceError) else None
    is_rest = request.path.startswith("/api/")
    if away is None and is_rest:
        return _plain(500, "internal_error", "something failed that should not")
    status = 503 if away else 500
    shown, headers = problem_of(away) if away else ({}, {})
    if is_rest:
        return JsonResponse(
            shown, status=status, headers=headers, content_type=CONTENT_TYPE
        )
    shown |= {"request_id": current().request_id}
    # who asks may not be known yet
    with translation.override(translation.get_language_from_request(request)):
        text = loader.render_to_string(f"{status}.html", shown)
    return HttpResponse(text, status=status, headers=headers)


def _plain(status: int, code: str, detail: str) -> HttpResponse:
    body = problem_body(status, code=code, detail=detail)
    return JsonResponse(body, status=status, content_type=CONTENT_TYPE)
