"""Gauges read from the database when asked: no process has to keep them.

No label carries a name of a source, table or user.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime

from django.db import DatabaseError
from django.db.models import Count, Min
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from catalog.access.policy_version import current_version
from catalog.extensions import registered
from catalog.models import Datasource, Table
from core import jobs
from core.models import Job

log = logging.getLogger("sluice.metrics")


class CatalogGauges(Collector):
    def collect(self) -> Iterator[Metric]:
        try:
            yield from (_tables(), _jobs(), _waiting(), *_small())
            for more in registered.gauges:
                yield from more()
        except DatabaseError:
            log.warning("gauges are missing: the database cannot be read")

    def describe(self) -> Iterator[Metric]:
        return iter(())


def _tables() -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "sluice_tables", "Tables by kind and status", labels=["kind", "status"]
    )
    rows = (
        Table.objects.order_by().values_list("kind", "status").annotate(n=Count("pk"))
    )
    for kind, status, count in rows:
        family.add_metric([kind, status], count)
    return family


def _jobs() -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "sluice_jobs", "Unfinished jobs by kind and state", labels=["kind", "state"]
    )
    # those that ended are millions, and no index counts them
    rows = Job.objects.exclude(state__in=sorted(jobs.TERMINAL)).order_by()
    counts = rows.values_list("kind", "state").annotate(n=Count("pk"))
    for kind, state, count in counts:
        family.add_metric([kind, state], count)
    return family


def _waiting() -> GaugeMetricFamily:
    oldest = Job.objects.filter(state=jobs.QUEUED).aggregate(at=Min("queued_at"))["at"]
    age = (datetime.now(UTC) - oldest).total_seconds() if oldest else 0.0
    return GaugeMetricFamily(
        "sluice_jobs_oldest_queued_seconds", "Age of the longest wait", value=age
    )


def _small() -> list[GaugeMetricFamily]:
    return [
        GaugeMetricFamily(
            "sluice_datasources", "Datasources", value=Datasource.objects.count()
        ),
        GaugeMetricFamily(
            "sluice_policy_version", "Policy version", value=current_version()
        ),
    ]
