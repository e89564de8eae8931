"""Which jobs that ask a source may have one of the few workers.

A source that answers nothing holds a worker until its time-outs end. So nobody has all
of them: neither one who asks, nor the schedule, nor sources that failed to answer just
before. The rule is pure; what it asks of the rows follows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import Q

from core.jobs import ACTIVE, QUEUED
from core.models import Job
from core.sentences import Sentence

# As `config.supervisor.stack` and the image of the worker start them.
WORKERS: Final = 4
MOST_OF_ONE_USER: Final = 2
MOST_TRIED_AGAIN: Final = 1
_MOST_RUNG = 20


class Turn(NamedTuple):
    """asker  who asked for the job, or the schedule. attempts  of its page, failed"""

    asker: str
    attempts: int


def why_not(wanted: Turn, running: Sequence[Turn]) -> str:
    """Why a job has to wait, for people; "" when it may begin."""
    again = sum(1 for one in running if one.attempts)
    if wanted.attempts and again >= MOST_TRIED_AGAIN:
        return "waiting for another source that is tried again"
    own = sum(1 for one in running if one.asker == wanted.asker)
    if own >= MOST_OF_ONE_USER:
        return Sentence(
            "waiting for other tests and discoveries of %(asker)s: at most"
            " %(most)s of them run at once",
            asker=wanted.asker,
            most=MOST_OF_ONE_USER,
        )
    if own and len(running) >= WORKERS - 1:
        return "waiting for a worker: the last one is for users who have none"
    return ""


def has_place(job: Job, kinds: Collection[str]) -> bool:
    """Whether the locked job may begin; else its row says why. In a transaction."""
    with connection.cursor() as cursor:
        # counted while nobody else can begin one
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('source-jobs'))")
    others = Job.objects.filter(kind__in=kinds, state__in=ACTIVE).exclude(pk=job.pk)
    running = [Turn(*row) for row in others.values_list("requested_by", "attempts")]
    reason = why_not(Turn(job.requested_by, job.attempts), running)
    if reason:
        Job.objects.filter(pk=job.pk).update(reason=reason)
    return not reason


def next_ones(kinds: Collection[str], now: datetime) -> list[UUID]:
    """The job of each asker that has waited longest: who may begin now is decided when
    it is rung for."""
    waiting = Job.objects.filter(kind__in=kinds, state=QUEUED)
    ready = waiting.filter(Q(not_before=None) | Q(not_before__lte=now))
    oldest = ready.order_by("requested_by", "queued_at").distinct("requested_by")
    return list(oldest.values_list("pk", flat=True)[:_MOST_RUNG])
