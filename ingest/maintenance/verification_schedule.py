"""Automatic verifications: the tables that are due, and when each is due again.

A row says when its table has to be looked at; policies are asked then, so a change of
a policy costs one statement, however many tables it is for. Knows no REST, no Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from catalog.compiled import AnyRow
from core.jobs import TERMINAL
from core.jobs.moves import SCHEDULE
from core.models import Job
from ingest.contract.job import VERIFY
from ingest.jobs.queue import LANE_LIMITS, new_job, put
from ingest.maintenance.remedies import Repair
from ingest.models import Pipeline
from ingest.models.states import LOADED
from ingest.pipelines import replaced
from ingest.pipelines.policies.policy import Effective
from ingest.pipelines.policies.store import Policies, policy_of
from ingest.pipelines.policies.verification import RETRY_SECONDS, due_at, retry_at

PAGE = 200
# A verification reads a whole table: few at once, and one for each source, so that a
# source that answers slowly holds up none of the others. A low rate makes any of them
# take hours: a place of their lane is left to what people ask for of smaller tables.
MOST_AT_ONCE = LANE_LIMITS[VERIFY] - 1
LOOK_AGAIN = timedelta(minutes=10)


_is_any_due = AnyRow(lambda: Pipeline.objects.filter(verify_at__lte=Now()))


def start_due_verifications() -> int:
    """Queue those that the policies of their tables ask for; how many."""
    if not _is_any_due():
        return 0
    with transaction.atomic():
        due = verifications_due()
        if due:
            put([new_job(each, VERIFY, actor=SCHEDULE) for each in due])
    return len(due)


def verifications_due() -> list[Pipeline]:
    """Those that have waited longest, to be queued in the caller's transaction."""
    busy = _busy_sources()
    room = MOST_AT_ONCE - len(busy)
    if room <= 0:
        return []
    page = list(_candidates(busy)[:PAGE])
    chosen = _decide(page, room)
    Pipeline.objects.bulk_update(page, ["verify_at"])
    return chosen


def _busy_sources() -> set[int]:
    """Datasources with an automatic verification that has not ended."""
    open_jobs = Job.objects.filter(kind=VERIFY, requested_by=SCHEDULE).exclude(
        state__in=sorted(TERMINAL)
    )
    pipelines = [job.payload["pipeline"] for job in open_jobs.only("payload")]
    found = Pipeline.objects.filter(pk__in=pipelines)
    return set(found.values_list("source_table__database__datasource_id", flat=True))


def _candidates(busy: set[int]) -> QuerySet[Pipeline]:
    return (
        Pipeline.objects.select_for_update(skip_locked=True, of=("self",))
        .filter(verify_at__lte=timezone.now())
        .exclude(source_table__database__datasource__in=busy)
        .select_related("source_table__database__datasource", "lake_table")
        .order_by("verify_at")
    )


def _decide(page: list[Pipeline], room: int) -> list[Pipeline]:
    """Those to verify now; every row gets the moment of its next look."""
    policies = Policies({p.source_table.database.datasource_id for p in page})
    now = timezone.now()
    chosen: dict[int, Pipeline] = {}
    for pipeline in page:
        policy = policies.of_pipeline(pipeline)
        wanted = _due_at(pipeline, policy, verified_at=pipeline.verified_at, now=now)
        source = pipeline.source_table.database.datasource_id
        if wanted is None or wanted > now:
            pipeline.verify_at = wanted
        elif not _is_ready(pipeline):
            pipeline.verify_at = now + LOOK_AGAIN
        elif len(chosen) < room and source not in chosen:
            chosen[source] = pipeline
            # however this job ends, or if nobody says how, there is a next one
            every = policy.verification.verify_every or RETRY_SECONDS
            pipeline.verify_at = now + timedelta(seconds=every)
    return list(chosen.values())


def _due_at(
    pipeline: Pipeline,
    policy: Effective,
    *,
    verified_at: datetime | None,
    now: datetime,
) -> datetime | None:
    """As the pure `due_at`; one whose source was replaced waits for no policy."""
    if replaced.is_unverified(pipeline):
        return now
    return due_at(
        policy.verification, verified_at=verified_at, quiet=policy.quiet, now=now
    )


def _is_ready(pipeline: Pipeline) -> bool:
    table = pipeline.lake_table
    return table is not None and table.is_queryable and pipeline.state in LOADED


# ------------------------------------------------------------------------- endings


def note_verified(pipeline: Pipeline, job: Job, verdict: str) -> None:
    """A verification has ended well, whoever asked for it."""
    now = timezone.now()
    policy = policy_of(pipeline)
    pipeline.verified_at, pipeline.verdict = now, verdict
    pipeline.verified_job = job.pk
    replaced.verified_by(pipeline, job)
    pipeline.verify_at = _due_at(pipeline, policy, verified_at=now, now=now)
    fields = ["verified_at", "verdict", "verified_job", "verify_at", "replaced"]
    pipeline.save(update_fields=fields)


def found_by(pipeline: Pipeline) -> Mapping[str, Any]:
    """The facts of the verification that stands: a load or a repair makes it void. {} =
    none does."""
    if pipeline.verified_job is None:
        return {}
    report = Job.objects.filter(pk=pipeline.verified_job).values_list(
        "report", flat=True
    )
    return (report.first() or {}).get("facts") or {}


def remedy_of(pipeline: Pipeline) -> Repair:
    """What makes the table equal to its source; "" = it is, as far as is known."""
    if pipeline.verdict != "different":
        return ""
    return "repair" if found_by(pipeline).get("repair") else "resync"


def note_undecided(pipeline: Pipeline) -> None:
    """A verification failed: what was known before still counts."""
    now = timezone.now()
    again = retry_at(policy_of(pipeline).verification, now=now)
    if again is None and replaced.is_unverified(pipeline):
        again = now + timedelta(seconds=RETRY_SECONDS)
    Pipeline.objects.filter(pk=pipeline.pk).update(verify_at=again)
