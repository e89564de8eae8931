"""Counters of the web process. With PROMETHEUS_MULTIPROC_DIR set, of all of them."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

REQUESTS = Counter(
    "sluice_http_requests_total", "HTTP requests", ["method", "route", "status"]
)
REQUEST_SECONDS = Histogram(
    "sluice_http_request_seconds",
    "Time to answer an HTTP request",
    ["method", "route"],
    buckets=(0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 30),
)
