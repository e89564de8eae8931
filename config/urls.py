"""Every route of the web process, readable on one screen."""

from __future__ import annotations

from importlib import import_module

from django.urls import URLPattern, URLResolver, include, path

from catalog.api import house
from catalog.api import urls as catalog_urls

API = "api/v1/"
PARTS = [(API, "ingest.api.urls"), (API, "gateway.api.urls"), ("", "frontend.urls")]


def _has(module: str) -> bool:
    try:
        import_module(module)
    except ImportError:
        return False
    return True


urlpatterns: list[URLPattern | URLResolver] = [
    path("health/live", house.live),
    path("health/ready", house.ready),
    path("metrics", house.metrics),
    path(API, include(catalog_urls.urlpatterns)),
    *(path(at, include(name)) for at, name in PARTS if at and _has(name)),
    path(API, include(catalog_urls.later_patterns)),
    path(API, include(catalog_urls.everything_else)),
    *(path(at, include(name)) for at, name in PARTS if not at and _has(name)),
]

handler404 = "catalog.api.problems.page_not_found"
handler500 = "catalog.api.problems.server_error"
