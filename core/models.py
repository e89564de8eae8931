"""Job, JobEvent, Lease and outbox rows: the durable half of every long work.

Kinds, subjects and keys are opaque words here; no business term may appear.
"""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from core import jobs
from core.context import current_request_id
from core.sentence_field import SentenceField
from core.states import Transitions


class EventBase(models.Model):
    """One move of a state machine; append-only."""

    at = models.DateTimeField(auto_now_add=True)
    event = models.CharField(max_length=40)
    before = models.CharField(max_length=20)
    after = models.CharField(max_length=20)
    actor = models.CharField(max_length=150, blank=True)
    reason = SentenceField(blank=True)

    class Meta:
        abstract = True
        ordering: ClassVar = ["id"]


# What changed no rows, and no user asked for: syncs and compactions, nearly all jobs.
_AUTOMATIC = ("policy", "schedule")
QUIET = Q(state=jobs.SUCCEEDED) & (
    Q(kind="sync", done=0) | Q(kind="compact", requested_by__in=_AUTOMATIC)
)


class Job(models.Model):
    """One piece of bounded work. The row is the job; a message only says so.

    kind           opaque word, decides who executes it
    subject        what it works on, for people ("lake.shop.orders")
    subject_id     the same for programs; indexed, no foreign key by design
    exclusive_key  at most one ACTIVE job per key and one WAITING per (key, kind) that
                   was never tried; one that comes back to try again waits beside it;
                   "" = no limit
    lane           which queue of the executor it belongs to
    share_key      jobs of one key never have all places of a lane; "" = no such limit
    weight         how much there is to do: lighter ones may overtake heavier ones
    spec / report  versioned JSON, in and out
    handle         where it runs (launcher, boot id, process), written before waiting;
                   of one that waits, `put_off_since`: it could not begin since then
    cursor         where a job that is cut into pages goes on
    progress_at    last sign of life
    moved_at       when something last came of it, over all attempts; None = not begun
    """

    transitions: ClassVar[Transitions] = jobs.JOB

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=40)
    subject = models.CharField(max_length=600, blank=True)
    subject_id = models.CharField(max_length=64, blank=True)
    exclusive_key = models.CharField(max_length=120, blank=True)
    lane = models.CharField(max_length=20, blank=True)
    share_key = models.CharField(max_length=80, blank=True, default="")
    weight = models.BigIntegerField(default=0)
    state = models.CharField(max_length=20, default=jobs.PLANNED)
    reason = SentenceField(blank=True)
    payload = models.JSONField(default=dict, blank=True)
    spec = models.JSONField(null=True, blank=True)
    report = models.JSONField(null=True, blank=True)
    handle = models.JSONField(default=dict, blank=True)
    cursor = models.JSONField(default=dict, blank=True)
    phase = models.CharField(max_length=60, blank=True)
    done = models.BigIntegerField(default=0)
    total = models.BigIntegerField(null=True, blank=True)
    unit = models.CharField(max_length=20, blank=True)
    error_code = models.CharField(max_length=80, blank=True)
    error_message = SentenceField(blank=True)
    error_hint = SentenceField(blank=True)
    attempts = models.PositiveIntegerField(default=0)
    max_attempts = models.PositiveIntegerField(default=3)
    cancel_requested = models.CharField(max_length=20, blank=True)
    requested_by = models.CharField(max_length=150, blank=True)
    request_id = models.CharField(max_length=64, blank=True, default=current_request_id)
    created_at = models.DateTimeField(auto_now_add=True)
    queued_at = models.DateTimeField(null=True, blank=True)
    not_before = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    progress_at = models.DateTimeField(null=True, blank=True)
    moved_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["exclusive_key"],
                condition=Q(state__in=sorted(jobs.ACTIVE)) & ~Q(exclusive_key=""),
                name="one_active_job_per_key",
            ),
            models.UniqueConstraint(
                fields=["exclusive_key", "kind"],
                condition=Q(state__in=sorted(jobs.WAITING), attempts=0)
                & ~Q(exclusive_key=""),
                name="one_waiting_job_per_key_and_kind",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["subject_id", "-created_at"]),
            models.Index(fields=["-created_at", "id"]),
            models.Index(
                fields=["kind", "queued_at"],
                condition=~Q(state__in=sorted(jobs.TERMINAL)),
                name="unfinished_jobs",
            ),
            # what ended well is removed by its age
            models.Index(fields=["kind", "state", "finished_at"], name="jobs_by_end"),
            # lists pass over the others, which may be millions
            models.Index(
                fields=["-created_at", "id"], condition=~QUIET, name="loud_jobs"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject} [{self.state}]"

    @property
    def is_finished(self) -> bool:
        return self.state in jobs.TERMINAL


class JobEvent(EventBase):
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="events")


class JobLog(models.Model):
    """Log lines of a job, numbered per job by their primary key order."""

    job = models.ForeignKey(
        Job,
        on_delete=models.CASCADE,
        related_name="log_lines",
        db_index=False,  # the index below begins with it
    )
    at = models.DateTimeField(auto_now_add=True)
    level = models.CharField(max_length=10)
    message = models.TextField()

    class Meta:
        ordering: ClassVar = ["id"]
        indexes: ClassVar = [
            # pages and followers read one job's lines in order, from anywhere on
            models.Index(fields=["job", "id"], name="lines_of_a_job"),
        ]


class Lease(models.Model):
    """A named right with an owner, an end and a fencing token that only grows."""

    name = models.CharField(max_length=120, primary_key=True)
    owner = models.CharField(max_length=120, blank=True)
    token = models.BigIntegerField(default=0)
    expires_at = models.DateTimeField(null=True, blank=True)


class DomainEvent(models.Model):
    """What happened, until it is handled; written in `core.outbox` alone.

    subject, subject_id   what it happened to; no foreign key by design
    data         versioned (`v`), small
    attempts     begun so far, each counted before it began
    given_up_at  it could not be handled
    """

    at = models.DateTimeField(db_default=Now())
    topic = models.CharField(max_length=40)
    subject = models.CharField(max_length=40)
    subject_id = models.CharField(max_length=64)
    data = models.JSONField()

    attempts = models.PositiveSmallIntegerField(db_default=0)
    not_before = models.DateTimeField(null=True)
    given_up_at = models.DateTimeField(null=True)
