"""Facts about the running product: versions, driver starts, the queue."""

from __future__ import annotations

import importlib.metadata
import platform
from datetime import timedelta

import django
from django.conf import settings
from django.db.models import Count, Min, Q
from django.utils import timezone

from core.jobs import ACTIVE, FAILED, WAITING
from core.models import Job
from ingest.models import DriverBoot

BOOTS = 5


def versions() -> list[tuple[str, str]]:
    found = [
        ("Sluice", str(settings.SPECTACULAR_SETTINGS["VERSION"])),
        ("Python", platform.python_version()),
        ("Django", django.get_version()),
    ]
    for title, package in (("PySpark", "pyspark"), ("Celery", "celery")):
        found.append((title, importlib.metadata.version(package)))
    return found


def drivers() -> list[DriverBoot]:
    return list(DriverBoot.objects.order_by("-started_at")[:BOOTS])


def queue() -> dict[str, object]:
    day = timezone.now() - timedelta(days=1)
    counts: dict[str, object] = Job.objects.filter(
        Q(state__in=[*WAITING, *ACTIVE]) | Q(state=FAILED, finished_at__gte=day)
    ).aggregate(
        waiting=Count("pk", filter=Q(state__in=WAITING)),
        oldest=Min("created_at", filter=Q(state__in=WAITING)),
        active=Count("pk", filter=Q(state__in=ACTIVE)),
        failed=Count("pk", filter=Q(state=FAILED)),
    )
    return counts
