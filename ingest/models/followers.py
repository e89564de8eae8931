"""Rows of what reads the logs of sources."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from catalog.models import Datasource
from core.sentence_field import SentenceField


class SourceFollower(models.Model):
    """The reader of one source's log: what is wanted, and what it last reported.

    desired_at    when that was requested last: a reader that waits to be started again
                  is started at once
    begin_anew    a person decided that a lost log is passed over; until that is done
    observed      since `observed_at`; of a reader: starting, waiting (for what `reason`
                  names), following; failed: it ended and is started again
    reason, code, hint   why it does not follow; "" = it does
    host, pid     where it runs; "" = nowhere
    heartbeat_at  when it last reported that it follows; None = never
    written_at    when its host last wrote this
    position      up to where its segments are durable; number, first: of the last one,
                  and of the first that is kept
    committed_at  when the newest durable transaction was committed at the source
    rows          made durable since its start, and lately a second
    waiting_bytes of all kept segments
    log_…         bytes of its log: that the source keeps for it, that may come before
                  it stops keeping them (None = without a limit), that are not durable
                  here yet
    """

    RUNNING, STOPPED = "RUNNING", "STOPPED"

    datasource = models.OneToOneField(
        Datasource, on_delete=models.CASCADE, related_name="follower"
    )
    desired = models.CharField(max_length=20, default=RUNNING)
    desired_at = models.DateTimeField(auto_now_add=True)
    begin_anew = models.BooleanField(default=False)
    observed = models.CharField(max_length=20, default="stopped")
    observed_at = models.DateTimeField(auto_now_add=True)
    reason = SentenceField(blank=True)
    code = models.CharField(max_length=80, blank=True)
    hint = SentenceField(blank=True)
    host = models.CharField(max_length=200, blank=True)
    pid = models.PositiveIntegerField(null=True, blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    written_at = models.DateTimeField(auto_now_add=True)
    position = models.TextField(blank=True)
    number = models.BigIntegerField(default=0)
    first = models.BigIntegerField(default=0)
    committed_at = models.DateTimeField(null=True, blank=True)
    rows = models.BigIntegerField(default=0)
    rows_per_second = models.FloatField(default=0.0)
    waiting_bytes = models.BigIntegerField(default=0)
    log_kept = models.BigIntegerField(default=0)
    log_safe = models.BigIntegerField(null=True, blank=True)
    log_behind = models.BigIntegerField(default=0)
    log_status = models.CharField(max_length=40, blank=True)

    class Meta:
        ordering: ClassVar = ["datasource"]
