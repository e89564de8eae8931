"""Counters of the gateway process, shown on its internal API."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

REGISTRY = CollectorRegistry()

CONNECTIONS = Gauge(
    "sluice_gateway_connections", "Open client connections", registry=REGISTRY
)
SESSIONS = Gauge(
    "sluice_gateway_sessions", "Open HiveServer2 sessions", registry=REGISTRY
)
LOGINS = Counter(
    "sluice_gateway_logins_total", "Logins", ["outcome"], registry=REGISTRY
)
STATEMENTS = Counter(
    "sluice_gateway_statements_total", "Statements", ["state"], registry=REGISTRY
)
STATEMENT_SECONDS = Histogram(
    "sluice_gateway_statement_seconds",
    "Time from the call to the end of a statement",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
    registry=REGISTRY,
)
FETCHED_BYTES = Counter(
    "sluice_gateway_fetched_bytes_total", "Result bytes relayed", registry=REGISTRY
)
FETCHED_ROWS = Counter(
    "sluice_gateway_fetched_rows_total", "Result rows relayed", registry=REGISTRY
)
AUDIT_LOST = Counter(
    "sluice_gateway_audit_lines_lost_total",
    "Lines of the audit that could not be written",
    registry=REGISTRY,
)
DATABASE_AGE = Gauge(
    "sluice_gateway_database_read_age_seconds",
    "Seconds since the metadata database last answered",
    registry=REGISTRY,
)
ENGINE_READY = Gauge(
    "sluice_gateway_engine_ready",
    "1 while the query engine is READY",
    registry=REGISTRY,
)
