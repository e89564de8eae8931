"""Every request gets an id and a context; its outcome is logged and counted.

Knows HTTP only: who the caller is comes later, from authentication.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from prometheus_client import Counter, Histogram

from core.context import working_for

REQUESTS = Counter(
    "sluice_http_requests_total", "HTTP requests", ["method", "route", "status"]
)
REQUEST_SECONDS = Histogram(
    "sluice_http_request_seconds",
    "Time to answer an HTTP request",
    ["method", "route"],
    buckets=(0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 30),
)


log = logging.getLogger("sluice.http")
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_METHODS = frozenset(
    {"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT"}
)
_QUIET = ("/health/", "/metrics", "/static/")


class RequestContextMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get("X-Request-ID", "")
        request_id = given if _ID.fullmatch(given) else uuid.uuid4().hex
        is_api = request.path.startswith("/api/")
        started = time.monotonic()
        with working_for(
            request_id=request_id,
            actor="",
            door="rest" if is_api else "web",
            address=str(request.META.get("REMOTE_ADDR", "")),
        ):
            response = self.get_response(request)
            response["X-Request-ID"] = request_id
            if is_api and "Cache-Control" not in response:
                response["Cache-Control"] = "no-store"
            self._note(request, response, time.monotonic() - started)
        return response

    @staticmethod
    def _note(request: HttpRequest, response: HttpResponse, seconds: float) -> None:
        match = request.resolver_match
        route = match.route if match else "(none)"
        # any word is a method, and each would be a counter for ever
        method = str(request.method)
        method = method if method in _METHODS else "other"
        REQUESTS.labels(method, route, str(response.status_code)).inc()
        REQUEST_SECONDS.labels(method, route).observe(seconds)
        if request.path.startswith(_QUIET):
            return
        log.info(
            "%s %s %s",
            method,
            request.path,
            response.status_code,
            extra={"ms": round(seconds * 1000, 1), "status": response.status_code},
        )
