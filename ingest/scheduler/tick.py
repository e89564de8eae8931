"""Everything that time brings about, found in the database.

The tick loop does each part as often as a user could notice, a Celery task those that
a user may be waiting for; two at once do no harm. A part that fails is logged and does
not stop the others.
"""

from __future__ import annotations

import functools
import logging
import operator
import time
from collections.abc import Callable
from datetime import timedelta

from django.db.models import Q
from django.db.models.functions import Now

from catalog.access import forgetting
from core import outbox_reader
from core.database_errors import is_away
from core.jobs import pages
from core.jobs.moves import JobKind, kinds_of
from core.models import Job
from ingest.alerts import capture, fan_out, lag, stalled, triggers
from ingest.alerts.lag import note_presence
from ingest.jobs import queue
from ingest.jobs.reconcile import reconcile_jobs
from ingest.maintenance import compact_job, health_collector, verification_schedule
from ingest.models import DriverIncarnation
from ingest.pipelines import (
    compaction_plans,
    deferred_onboardings,
    log_laggards,
    needed_resync_jobs,
    new_tables,
    recording,
    sync_job,
)
from ingest.scheduler import rollups

log = logging.getLogger(__name__)

KEPT_JOBS = timedelta(days=2)
PRUNE_PAGE = 2000


def tick_asked() -> None:
    """What a notification may be about: a removal, which waits for the jobs of its
    table to end, and onboardings, which wait for a discovery."""
    for part in (pages.advance_in_beat, deferred_onboardings.plan_waiting):
        _run(part)


class Ticking:
    """A process that ticks: each part as often as it is worth its statements."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due: dict[str, float] = {}

    def tick(self) -> None:
        """What is due by now, at first everything. A database that is away goes up: the
        caller tries again."""
        now = self._clock()
        for part, seconds in _parts().items():
            if now < self._due.get(part.__name__, now):
                continue
            _run(part)
            # not before: after a database that was away it is due at once
            self._due[part.__name__] = now + seconds


def _parts() -> dict[Callable[[], object], float]:
    """Parts in their order → seconds from one time to the next."""
    return {
        note_presence: 5,
        reconcile_jobs: 2,
        sync_job.start_due_syncs: 0,
        health_collector.look_at_due: 2,
        compact_job.start_due_compactions: 5,
        verification_schedule.start_due_verifications: 10,
        lag.open_late: 10,
        stalled.look_at_stalled: 10,
        capture.look_at_captures: 10,
        # the driver host claims jobs, and explains why others wait
        queue.explain_no_driver: 2,
        pages.advance_in_beat: 2,
        deferred_onboardings.plan_waiting: 5,
        new_tables.take_new_tables: 5,
        recording.record_changed: 2,
        rollups.write_minute: 5,
        # the follower drops what nobody needs once a minute
        log_laggards.give_up_laggards: 120,
        needed_resync_jobs.start_needed: 10,
        # behind all that appends events
        triggers.read_events: 0,
        fan_out.announce: 2,
        prune: 60,
        outbox_reader.prune_events: 60,
        fan_out.forget_old: 300,
        forgetting.forget_sessions: 60,
        forgetting.forget_audit: 60,
    }


def _run(part: Callable[[], object]) -> None:
    try:
        part()
    except Exception as error:
        if is_away(error):
            raise
        # of one row: each time the same part would keep all behind it from their turn
        log.exception("tick: %s failed", part.__name__)


def prune() -> int:
    """Forget what a schedule brought about long ago, as kinds of jobs say."""
    forgotten = {each.name: each.forgotten for each in kinds_of(JobKind)}
    parts = [Q(kind=kind) & part for kind, part in forgotten.items() if part]
    rows = Job.objects.filter(finished_at__lt=Now() - KEPT_JOBS)
    old = rows.filter(functools.reduce(operator.or_, parts))
    pks = list(old.values_list("pk", flat=True)[:PRUNE_PAGE])
    if pks:
        Job.objects.filter(pk__in=pks).delete()
    compaction_plans.forget_old(PRUNE_PAGE)
    DriverIncarnation.objects.filter(ended_at__lt=Now() - KEPT_JOBS).delete()
    return len(pks)
