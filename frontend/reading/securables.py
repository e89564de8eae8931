"""Which thing a row's privileges are about."""

from __future__ import annotations

from catalog.access.policy import Securable
from catalog.discovery.services import KINDS as SOURCE_KINDS
from catalog.models import Table
from catalog.selectors.tables import securable_of
from core.models import Job


def securable_of_job(job: Job) -> Securable | None:
    """The datasource or table a job works on; None when it is gone."""
    if job.kind in SOURCE_KINDS:
        return Securable(job.subject)
    if not job.subject_id.isdigit():
        return None
    table = (
        Table.objects.select_related("database__datasource")
        .filter(pk=int(job.subject_id))
        .first()
    )
    return securable_of(table) if table else None
