"""Suspends people whom nobody vouched for lately, where nobody can be asked.

An identity provider is asked only when somebody signs in, and so is a directory without
a searching account. Who left there never signs in again: his tokens must not outlive
him. The next sign-in lifts it.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from django.conf import settings

from catalog.access.external_users import suspend
from catalog.access.ldap_spec import PROVIDER
from catalog.models import ExternalIdentity

LOOK_SECONDS = 60.0
PAGE = 200
_looked_at = float("-inf")


def suspend_idle_now_and_then() -> None:
    """For the tick: look once a minute per process."""
    global _looked_at  # one pace per process
    if time.monotonic() - _looked_at >= LOOK_SECONDS:
        _looked_at = time.monotonic()
        suspend_idle()


def suspend_idle() -> int:
    """Suspend who did not sign in for SLUICE_IDLE_DAYS; how many. 0 days = never."""
    if settings.SLUICE_IDLE_DAYS <= 0:
        return 0
    before = datetime.now(UTC) - timedelta(days=settings.SLUICE_IDLE_DAYS)
    idle = ExternalIdentity.objects.filter(checked_at__lt=before, user__is_active=True)
    ldap = settings.SLUICE_LDAP
    if ldap is not None and ldap.can_search:  # the directory is asked about these
        idle = idle.exclude(provider=PROVIDER)
    found = list(idle.values_list("provider", "subject")[:PAGE])
    return sum(suspend(*one, reason="did_not_sign_in") for one in found)
