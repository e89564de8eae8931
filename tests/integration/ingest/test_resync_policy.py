"""A table that needs a resync gets it automatically where its policy says so."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from core.models import Job
from ingest.alerts import triggers
from ingest.models.alerts import Alert
from ingest.pipelines import needed_resync_jobs, transitions
from ingest.pipelines.policies.store import change_policy, change_table_policy
from tests.integration.ingest.test_log_columns import logged
from tests.integration.ingest.test_schema_drift import alter

__all__ = ["logged"]
pytestmark = pytest.mark.django_db


def lose(world: Any) -> None:
    pipeline = world.pipeline("orders")
    transitions.lose_position(pipeline, reason="segments are gone")


def mine() -> Any:
    return Job.objects.filter(kind="resync", requested_by=needed_resync_jobs.ACTOR)


def test_it_waits_for_somebody_with_an_alert_and_a_button(logged: Any) -> None:
    lose(logged)
    assert needed_resync_jobs.start_needed() == 0
    triggers.read_events()
    told = Alert.objects.get(closed_at=None)
    assert (told.kind, told.code, told.repair) == ("failed", "needs_resync", "resync")
    assert "segments are gone" in told.message


def test_it_begins_by_the_policy_a_few_times_a_day(logged: Any) -> None:
    change_policy(logged.source, None, {"resync": "auto"})
    for begun in range(1, 4):
        lose(logged)
        assert needed_resync_jobs.start_needed() == 1
        assert logged.pipeline("orders").state == "RESYNCING"
        mine().update(state="SUCCEEDED")
        transitions.move(logged.pipeline("orders"), "load")
        lose(logged)
        assert needed_resync_jobs.start_needed() == 0, "not at once"
        transitions.move(logged.pipeline("orders"), "start_resync")
        transitions.move(logged.pipeline("orders"), "load")
        assert mine().count() == begun
        for job in mine():
            job.created_at -= timedelta(hours=2)
            job.save(update_fields=["created_at"])
    lose(logged)
    assert needed_resync_jobs.start_needed() == 0, "no more that day"


def test_tables_that_may_not_begin_keep_no_others_from_it(
    logged: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(needed_resync_jobs, "PAGE", 1)
    logged.onboard("customers")
    logged.until_live("customers")
    for name in ("orders", "customers"):
        transitions.lose_position(logged.pipeline(name), reason="segments are gone")
    first, second = sorted(("orders", "customers"), key=lambda n: logged.pipeline(n).pk)
    change_table_policy(logged.pipeline(second), {"resync": "auto"})
    assert needed_resync_jobs.start_needed() == 1
    assert logged.pipeline(second).state == "RESYNCING"
    # nor does one whose turn is over
    change_policy(logged.source, None, {"resync": "auto"})
    mine().update(state="SUCCEEDED")
    transitions.move(logged.pipeline(second), "load")
    transitions.lose_position(logged.pipeline(second), reason="segments are gone")
    assert needed_resync_jobs.start_needed() == 1
    assert logged.pipeline(first).state == "RESYNCING"
    assert needed_resync_jobs.start_needed() == 0


def test_what_waits_for_a_decision_does_not_begin(logged: Any) -> None:
    change_table_policy(logged.pipeline("orders"), {"resync": "auto"})
    lose(logged)
    alter(logged, name=None)
    assert needed_resync_jobs.start_needed() == 0
