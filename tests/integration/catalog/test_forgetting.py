"""Ended sessions and old lines of the audit go; living ones and young ones stay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.sessions.models import Session

from catalog.access import audit, forgetting
from catalog.models import AuditEntry

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def pages_of_two(monkeypatch):
    monkeypatch.setattr(forgetting, "PAGE", 2)


def _lines(*days: int) -> None:
    AuditEntry.objects.all().delete()
    for old in days:
        audit.record("user.create", on=str(old), actor="root")
        at = datetime.now(UTC) - timedelta(days=old)
        AuditEntry.objects.filter(object=str(old)).update(at=at)


def _left() -> list[str]:
    return list(AuditEntry.objects.order_by("at").values_list("object", flat=True))


def test_sessions_go_once_they_have_ended():
    now = datetime.now(UTC)
    for n, hours in enumerate((-3, -2, -1, 1)):
        ends = now + timedelta(hours=hours)
        Session.objects.create(session_key=f"s{n}", session_data="", expire_date=ends)
    assert forgetting.forget_sessions() == 3
    assert Session.objects.get().session_key == "s3"
    assert forgetting.forget_sessions() == 0


def test_the_audit_is_kept_for_as_long_as_was_said(settings):
    _lines(900, 500, 401, 399, 0)
    settings.SLUICE_AUDIT_DAYS = 400
    assert forgetting.forget_audit() == 3
    assert _left() == ["399", "0"]


def test_the_audit_is_kept_for_ever_unless_something_is_said():
    _lines(9000, 0)
    assert forgetting.forget_audit() == 0
    assert _left() == ["9000", "0"]


def test_a_pass_ends_in_time_and_the_next_goes_on(monkeypatch, settings):
    _lines(9, 8, 7, 6, 5)
    settings.SLUICE_AUDIT_DAYS = 1
    ticks = iter(range(100))
    monkeypatch.setattr(forgetting.time, "monotonic", lambda: next(ticks) * 0.3)
    assert forgetting.forget_audit() == 2
    assert _left() == ["7", "6", "5"]
