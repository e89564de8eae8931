"""What Sluice is and how it is: /config, /health, /metrics, and the catch-all."""

from __future__ import annotations

import importlib.metadata
import os
import sys
import threading
from datetime import timedelta
from typing import Any, ClassVar

import django
from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularJSONAPIView
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    generate_latest,
    multiprocess,
)
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response

from catalog import health
from catalog.access.policy import Privilege, Role
from catalog.api import replies
from catalog.api.gauges import CatalogGauges
from catalog.api.idempotency import LIFETIME
from catalog.api.single_flight import OneLook
from catalog.api.views import LARGEST_BODY, ApiView
from catalog.extensions import registered
from catalog.selectors.paging import DEFAULT_SIZE, LARGEST_SIZE
from catalog.sources.registry import KINDS
from core.errors import NotFound


class OneGenerator(SchemaGenerator):
    """Makes the document once in a process, which takes a second. One at a time: each
    class of views has one object for the schema of all, which generators at work beside
    each other take from each other."""

    _turn: ClassVar = threading.Lock()
    _made: ClassVar[Any] = None

    def get_schema(self, *args: Any, **kwargs: Any) -> Any:
        with self._turn:
            if OneGenerator._made is None:
                made = super().get_schema(*args, **kwargs)  # type: ignore[no-untyped-call]
                OneGenerator._made = made
            return OneGenerator._made


class SchemaView(ApiView, SpectacularJSONAPIView):
    """The OpenAPI document."""

    generator_class = OneGenerator
    permission_classes = (IsAuthenticated,)


class ConfigView(ApiView):
    """Versions, limits, what this installation can do, and who the caller is."""

    @extend_schema(responses=replies.Config)
    def get(self, request: Request) -> Response:
        found = {
            "versions": _versions(),
            "limits": {
                "page_size_default": DEFAULT_SIZE,
                "page_size_max": LARGEST_SIZE,
                "idempotency_seconds": int(LIFETIME / timedelta(seconds=1)),
                "body_bytes_max": LARGEST_BODY,
            },
            "capabilities": _capabilities(),
            "table_actions": registered.actions(),
            "gateway": {
                "port": settings.SLUICE_GATEWAY_PORT,
                "http_port": settings.SLUICE_GATEWAY_HTTP_PORT,
                "tls": bool(settings.SLUICE_TLS_CERTIFICATE),
            },
            "user": {
                "name": self.principal.name,
                "groups": sorted(self.principal.groups),
                "is_admin": self.principal.is_admin,
            },
        }
        return Response(replies.Config.body(found))


def _capabilities() -> dict[str, object]:
    """What this instance can do as it is set up; a test tries each."""
    return {
        "kinds": list(KINDS),
        "captures": ["snapshot", "timestamp", "log"],
        "privileges": list(Privilege),
        "roles": list(Role),
        "logins": _logins(),
        "statements": True,
        "schedules": ["every_seconds", "cron", "manual"],
        "job_events": True,
        "result_formats": ["json", "csv", "parquet", "arrow", "xlsx"],
        "verify": True,
        "repairs": [a["name"] for a in registered.actions() if a["is_repair"]],
        "alert_targets": registered.alert_targets(),
    }


def _logins() -> list[str]:
    outside = {"ldap": settings.SLUICE_LDAP, "oidc": settings.SLUICE_OIDC}
    return ["password", "token", *(name for name, is_set in outside.items() if is_set)]


def _versions() -> dict[str, str]:
    return {
        "sluice": str(settings.SPECTACULAR_SETTINGS["VERSION"]),
        "api": "v1",
        "python": ".".join(map(str, sys.version_info[:3])),
        "django": django.get_version(),
        "spark": importlib.metadata.version("pyspark"),
    }


class NothingHere(ApiView):
    """Any other address below /api/v1, for callers who are let in."""

    schema = None

    def _answer(self, request: Request, rest: str) -> Response:
        raise NotFound(
            "there is nothing at /api/v1/%(address)s",
            address=rest[:200],
            hint="see GET /api/v1/schema for what there is",
        )

    get = post = put = patch = delete = _answer


def live(request: HttpRequest) -> HttpResponse:
    """The process answers; nothing else is looked at."""
    return JsonResponse({"status": "ok"})


def ready(request: HttpRequest) -> HttpResponse:
    """200 when requests can be served well, else 503 with the reasons."""
    checks = _readiness.answer()
    is_ready = all(not check.problem for check in checks)
    body = {
        "status": "ok" if is_ready else "unavailable",
        "checks": [
            {"name": c.name, "ok": not c.problem, "problem": c.problem, "hint": c.hint}
            for c in checks
        ],
    }
    return JsonResponse(body, status=200 if is_ready else 503)


def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus text: process counters of all web processes, gauges of the catalog.

    Carries no name of a source, table or user, so it needs no login.
    """
    return HttpResponse(_metrics.answer(), content_type=CONTENT_TYPE_LATEST)


def _read_metrics() -> bytes:
    registry = CollectorRegistry()
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    else:
        registry.register(REGISTRY)
    registry.register(CatalogGauges())
    return generate_latest(registry)


_metrics = OneLook(_read_metrics)
_readiness = OneLook(lambda: health.readiness())
