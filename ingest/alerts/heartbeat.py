"""Whether anybody was there to carry tables: a night in which Sluice was down is not a
fault of theirs. One row, written every few seconds by whoever ticks."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction

from core.clock import SystemClock
from ingest.alerts.rules import Absence
from ingest.models.alerts import Presence

ONLY = 1
STEP = timedelta(seconds=10)
# a pass may take a while; longer than this nobody was there
GAP = timedelta(minutes=2)


def note_presence() -> None:
    """Several at once do no harm: the first one behind a gap notes it."""
    now = SystemClock().now()
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
