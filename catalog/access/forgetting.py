"""What the access layer forgets: sessions that ended, and old lines of the audit.

Both tables grow with each login and each statement. A pass takes the oldest by their
index, a page per transaction and for a short while, so that a million of them hold up
neither the tick nor who writes new ones.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db.models import QuerySet
from django.db.models.functions import Now

from catalog.models import AuditEntry

PAGE = 2_000
PASS_SECONDS = 0.5


def forget_sessions() -> int:
    """Delete sessions of the pages that have ended by themselves; how many."""
    ended = Session.objects.filter(expire_date__lt=Now()).order_by("expire_date")
    return _delete(ended)


def forget_audit() -> int:
    """Delete lines older than SLUICE_AUDIT_DAYS, none if that is 0; how many."""
    days = settings.SLUICE_AUDIT_DAYS
    if not days:
        return 0
    old = AuditEntry.objects.filter(at__lt=Now() - timedelta(days=days))
    return _delete(old.order_by("at"))


def _delete(rows: QuerySet[Any]) -> int:
    """Delete them page by page until there are none, or the pass is over."""
    until = time.monotonic() + PASS_SECONDS
    deleted = 0
    while time.monotonic() < until:
        page = list(rows.values_list("pk", flat=True)[:PAGE])
        if not page:
            break
        deleted += rows.filter(pk__in=page).delete()[0]
    return deleted
