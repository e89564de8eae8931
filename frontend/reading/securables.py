"""Which thing a row's privileges are about."""

from __future__ import annotations

from catalog.access.policy import Securable
from catalog.discovery.services import KINDS as SOURCE_KINDS
from catalog.models import Table
from catalog.names import LAKE
from catalog.selectors.tables import securable_of
from core.models import Job


def securable_of_job(job: Job) -> Securable:
    """The datasource or table a job works on; the whole lake when that is gone."""
    if job.kind in SOURCE_KINDS:
        return Securable(job.subject)
    tables = Table.objects.select_related("database__datasource")
    table = tables.filter(pk=int(job.subject_id or 0)).first()
    return securable_of(table) if table else Securable(LAKE)
