"""Every route of the web process, readable on one screen.

REST comes in parts by package; what no part knows ends in the catalog's catch-all,
so that an address below /api/ never falls through to a page.
"""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

from catalog.api import instance
from catalog.api import urls as catalog_urls
from frontend.views.home import api_docs

API = "api/v1/"

urlpatterns: list[URLPattern | URLResolver] = [
    path("health/live", instance.live),
    path("health/ready", instance.ready),
    path("metrics", instance.metrics),
    path(f"{API}docs", api_docs, name="api-docs"),
    path(API, include(catalog_urls.urlpatterns)),
    path(API, include("ingest.api.urls")),
    path(API, include("gateway.api.urls")),
    path(API, include(catalog_urls.everything_else)),
    path("", include("frontend.urls")),
]

handler404 = "catalog.api.problems.page_not_found"
handler500 = "catalog.api.problems.server_error"
