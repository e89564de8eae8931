"""Tables that do not keep up with their schedule: the one alert that only time brings.

Each row says when it would be late; a round that ends moves that on. So a pass reads
what is due by an index, and nothing of the tables that keep up.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from core.clock import SystemClock
from ingest.alerts.book import open_alert
from ingest.alerts.presence import last_absence
from ingest.alerts.rules import LATE, Absence, Trouble, excused, late_at, span
from ingest.models import TableOnboarding
from ingest.policy import Effective
from ingest.policyrows import Policies
from ingest.states import LOADED

PAGE = 200


def moment(policy: Effective, since: datetime) -> datetime | None:
    """When a table with this policy, whose state is of `since`, counts as late."""
    return late_at(policy.schedule, since, policy.late_after)


def open_late() -> int:
    """Open alerts for the tables whose moment has come; how many were looked at."""
    now = SystemClock().now()
    with transaction.atomic():
        due = list(
            TableOnboarding.objects.select_for_update(skip_locked=True, of=("self",))
            .filter(late_at__lte=now)
            .select_related("source_table__database__datasource", "lake_table")
            .order_by("late_at")[:PAGE]
        )
        if not due:
            return 0
        absence = last_absence()
        policies = Policies({f.source_table.database.datasource_id for f in due})
        for feed in due:
            _judge(feed, policies.of_feed(feed), now, absence)
        TableOnboarding.objects.bulk_update(due, ["late_at"])
    return len(due)


def _judge(
    feed: TableOnboarding, policy: Effective, now: datetime, absence: Absence | None
) -> None:
    """Policy and state are those of now, not of when the moment was noted."""
    feed.late_at = None
    table = feed.lake_table
    if table is None or feed.state not in LOADED or feed.capture == "snapshot":
        return
    since = table.caught_up_at or feed.created_at
    expected = moment(policy, since)
    if expected is not None:
        expected = excused(expected, absence, policy.late_after)
    if expected is None or expected > now:
        feed.late_at = expected
        return
    reason = f": {feed.status_reason}" if feed.status_reason else ""
    trouble = Trouble(
        LATE,
        cause=since.isoformat(),
        message=f"it shows the source as it was {span((now - since).total_seconds())}"
        f" ago{reason}",
        code="late",
        hint="its page says what holds it back",
        repair="sync",
    )
    open_alert(table.pk, trouble, at=now)
