"""What /metrics of the web process says of the gateway, asked of it each time."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from core.errors import SluiceError
from gateway import client


def gauges() -> Iterator[Metric]:
    """Nothing while the gateway does not answer: 0 would say that all is well."""
    try:
        state = client.gateway_state()
    except SluiceError:
        return
    yield GaugeMetricFamily(
        "sluice_gateway_audit_lines_lost",
        "Lines of the audit that could not be written since the gateway's start",
        value=state["audit_lost"],
    )
