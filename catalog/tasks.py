"""Celery tasks of the catalog: one line each into a service."""

from __future__ import annotations

import uuid

from celery import shared_task

from catalog.access.ldap_login import recheck_due
from core.jobs import pages


@shared_task(name="catalog.advance_discovery")  # type: ignore[untyped-decorator]
def advance_discovery_task(job_id: str) -> None:
    pages.advance(uuid.UUID(job_id))


@shared_task(name="catalog.recheck_directory")  # type: ignore[untyped-decorator]
def recheck_directory_task() -> None:
    recheck_due()
