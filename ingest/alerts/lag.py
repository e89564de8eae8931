"""Tables that do not keep up with their schedule: the one alert that only time brings.

Each row says when it would be late; a sync that ends moves that on. So a pass reads
what is due by an index, and nothing of the tables that keep up.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from catalog.compiled import AnyRow
from core.sentences import Sentence
from ingest.alerts.rules import LATE, Absence, Finding, excused
from ingest.alerts.store import open_alert
from ingest.maintenance.descriptions import span
from ingest.models import Pipeline
from ingest.models.alerts import Presence
from ingest.models.states import LOADED, RETIRED
from ingest.pipelines.policies.policy import Effective, late_moment
from ingest.pipelines.policies.store import Policies, policy_of
from ingest.planning.facts import LOG

ONLY = 1
STEP = timedelta(seconds=10)
# a pass may take a while; longer than this nobody was there
GAP = timedelta(minutes=2)

PAGE = 200


def ask_again(table_id: int) -> None:
    """Somebody closed its alert: it has as long as always, from now on."""
    rows = Pipeline.objects.filter(lake_table=table_id, late_at=None)
    pipeline = (
        rows.exclude(state=RETIRED)
        .select_related("source_table__database__datasource")
        .first()
    )
    if pipeline is None:
        return
    allowed = timedelta(seconds=policy_of(pipeline).late_after)
    # a sync that ends meanwhile knows better
    rows.filter(pk=pipeline.pk).update(late_at=timezone.now() + allowed)


_is_any_late = AnyRow(lambda: Pipeline.objects.filter(late_at__lte=Now()))


def open_late() -> int:
    """Open alerts for the tables whose moment has come; how many were looked at."""
    if not _is_any_late():
        return 0
    now = timezone.now()
    with transaction.atomic():
        due = list(
            Pipeline.objects.select_for_update(skip_locked=True, of=("self",))
            .filter(late_at__lte=now)
            .select_related("source_table__database__datasource", "lake_table")
            .order_by("late_at")[:PAGE]
        )
        if not due:
            return 0
        absence = last_absence()
        policies = Policies({f.source_table.database.datasource_id for f in due})
        for pipeline in due:
            _judge(pipeline, policies.of_pipeline(pipeline), now, absence)
        Pipeline.objects.bulk_update(due, ["late_at"])
    return len(due)


def _shown(moment: datetime | None, now: datetime) -> str:
    if moment is None:
        return "it has not caught up with its source yet"
    ago = span((now - moment).total_seconds())
    return Sentence("it shows the source as it was %(ago)s ago", ago=ago)


def _judge(
    pipeline: Pipeline, policy: Effective, now: datetime, absence: Absence | None
) -> None:
    """Policy and state are those of now, not of when the moment was noted."""
    pipeline.late_at = None
    table = pipeline.lake_table
    if table is None or pipeline.state not in LOADED or pipeline.capture == "snapshot":
        return
    shows = table.caught_up_at or pipeline.created_at
    since = pipeline.due_since or shows
    if pipeline.capture == LOG:
        # a newer moment alone is not noted at its pipeline
        since = max(since, shows)
    expected = late_moment(policy, since, capture=pipeline.capture)
    if expected is not None:
        expected = excused(expected, absence, policy.late_after)
    if expected is None or expected > now:
        pipeline.late_at = expected
        return
    reason = f": {pipeline.status_reason}" if pipeline.status_reason else ""
    trouble = Finding(
        LATE,
        cause=shows.isoformat(),
        message=f"{_shown(table.caught_up_at, now)}{reason}",
        code="late",
        hint="its page says what holds it back",
        repair="" if pipeline.capture == LOG else "sync",
    )
    open_alert(table.pk, trouble, at=now)


def note_presence() -> None:
    """Note that a process ticks: a night in which Sluice was down is no lag of tables.
    Several at once do no harm: the first one behind a gap notes it."""
    now = timezone.now()
    if Presence.objects.filter(pk=ONLY, seen_at__gt=now - STEP).exists():
        return
    with transaction.atomic():
        rows = Presence.objects.select_for_update()
        row, is_new = rows.get_or_create(pk=ONLY, defaults={"seen_at": now})
        if is_new or now - row.seen_at < STEP:
            return
        if now - row.seen_at > GAP:
            row.away_since, row.back_at = row.seen_at, now
        row.seen_at = now
        row.save()


def last_absence() -> Absence | None:
    row = Presence.objects.filter(pk=ONLY, back_at__isnull=False).first()
    if row is None or row.away_since is None or row.back_at is None:
        return None
    return Absence(row.away_since, row.back_at)
