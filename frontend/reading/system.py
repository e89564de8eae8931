"""Facts about the running product: versions, driver starts."""

from __future__ import annotations

import importlib.metadata
import platform

import django
from django.conf import settings

from ingest.models import DriverIncarnation

INCARNATIONS = 5


def versions() -> list[tuple[str, str]]:
    found = [
        ("Sluice", str(settings.SPECTACULAR_SETTINGS["VERSION"])),
        ("Python", platform.python_version()),
        ("Django", django.get_version()),
    ]
    for title, package in (("PySpark", "pyspark"), ("Celery", "celery")):
        found.append((title, importlib.metadata.version(package)))
    return found


def drivers() -> list[DriverIncarnation]:
    return list(DriverIncarnation.objects.order_by("-started_at")[:INCARNATIONS])
