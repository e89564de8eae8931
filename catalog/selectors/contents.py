"""What of a source is for who may see all of it: names of its tables and databases are
in its options, its counts, the outcome of its test, and the logs of its jobs.

A grant on something in a source lets the source itself be seen, and nothing else in it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from django.db.models import Count

from catalog.access.enforcement import denied
from catalog.access.grants import grants_of
from catalog.access.policy import Principal, Privilege, Securable, decide
from catalog.access.scope import in_scope, scope_of
from catalog.discovery.services import KINDS as SOURCE_KINDS
from catalog.models import Datasource, Table
from core.models import Job


def whole_sources(principal: Principal) -> Callable[[str], bool]:
    """Whether the principal may see everything in a datasource, by its name."""
    held = [] if principal.is_admin else grants_of(principal)
    whole = [grant for grant in held if not grant.on.database]

    def is_whole(name: str) -> bool:
        on = Securable(name)
        return decide(principal, Privilege.DISCOVER, on, whole).allowed

    return is_whole


def without_contents(principal: Principal) -> Callable[[Datasource], Datasource]:
    """Gives back the same row, for showing only: one of which not all may be seen holds
    what the caller may see. It is never saved."""
    is_whole = whole_sources(principal)

    @cache
    def counts() -> dict[int, int]:
        tables = Table.objects.filter(in_scope(scope_of(principal)))
        keys = tables.order_by().values_list("database__datasource")
        return dict(keys.annotate(Count("pk")))

    def shown(row: Datasource) -> Datasource:
        if not is_whole(row.name):
            row.options, row.test_result = {}, None
            row.table_count = counts().get(row.pk, 0)
        return row

    return shown


def job_without_contents(principal: Principal) -> Callable[[Job], Job]:
    """Gives back the same row, for showing only: of a job on a source that the caller
    may not see whole, state and progress."""
    is_whole = whole_sources(principal)

    def shown(job: Job) -> Job:
        if job.kind in SOURCE_KINDS and not is_whole(job.subject):
            job.report, job.reason = None, ""
            job.error_message = job.error_hint = ""
        return job

    return shown


def shows_log(principal: Principal, job: Job) -> bool:
    return job.kind not in SOURCE_KINDS or whole_sources(principal)(job.subject)


def require_log(principal: Principal, job: Job) -> None:
    """AccessDenied when lines of the job may name what the caller may not see."""
    if not shows_log(principal, job):
        raise denied(principal, Privilege.DISCOVER, Securable(job.subject))
