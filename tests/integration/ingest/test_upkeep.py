"""Which planned compactions become jobs, and which never more."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from core.errors import InvalidRequest
from core.models import Job
from ingest import policyrows, removal, tick, upkeep
from ingest.launch.fake import Fault
from ingest.maintenance import watching
from ingest.models import MaintenancePlan, TableHealth
from tests.integration.ingest.test_health import LATER, OLD, see, timeline_of

pytestmark = pytest.mark.django_db


def plan(world: Any, name: str, instant: str, state: str = "SCHEDULED") -> None:
    table = world.lake(name)
    MaintenancePlan.objects.create(table=table, instant=instant, state=state)


def test_a_table_that_is_kept_and_carried_no_more_is_compacted_no_more(world) -> None:
    world.onboard("orders")
    world.until_live("orders")
    table = world.lake("orders")
    world.fail_with("compact", Fault.HANG)
    plan(world, "orders", OLD)
    world.until(lambda: [j.state for j in world.jobs("compact")] == ["RUNNING"])
    plan(world, "orders", LATER, "FAILED")
    (timeline_of(world) / f"{OLD}.deltacommit.inflight").touch()
    assert see(world).score < 100
    job = removal.start_removal(table, drop_data=False, actor="ann")
    # what the cancelled compaction leaves is planned again, and due
    world.until(lambda: Job.objects.get(pk=job.pk).state == "SUCCEEDED")
    MaintenancePlan.objects.filter(state="FAILED").update(due_at=Now())
    world.steps(3)
    assert [j.state for j in world.jobs("compact")] == ["CANCELLED"]
    states = MaintenancePlan.objects.values_list("state", flat=True)
    assert set(states) == {"SUPERSEDED"}
    assert not TableHealth.objects.exists(), "it would count as broken for ever"
    with pytest.raises(InvalidRequest, match="not carried"):
        watching.look_now(table)
    assert not TableHealth.objects.exists()
    # one that was left over by whatever way starts nothing either
    plan(world, "orders", f"{LATER[:-1]}9")
    assert tick.start_due_compactions() == 0


def test_closed_quiet_hours_of_many_hide_nobody_else(world, monkeypatch) -> None:
    monkeypatch.setattr(upkeep, "PAGE", 1)
    names = ("a", "b", "c", "d")
    world.onboard(*names)
    world.until_live(*names)
    for number, name in enumerate(names):
        plan(world, name, f"2020010100000{number}000")
    closed, open_now = hours(2, 3), hours(-1, 2)
    database = world.feed("a").source_table.database
    policyrows.change_policy(world.source, None, {"quiet_hours": open_now})
    policyrows.change_policy(world.source, database, {"quiet_hours": closed})
    policyrows.change_table_policy(world.feed("d"), {"quiet_hours": open_now})
    with CaptureQueriesContext(connection) as seen:
        due = upkeep.compactions_due()
    assert [t.name for t in due] == ["d"]
    assert len(seen) <= 4, "a fixed number of statements, however many tables"
    policyrows.change_table_policy(world.feed("d"), {"quiet_hours": closed})
    assert upkeep.compactions_due() == {}
    policyrows.change_policy(world.source, database, {"quiet_hours": None})
    assert [t.name for t in upkeep.compactions_due()] == ["a"], "as the source says"
    policyrows.change_policy(world.source, None, {"quiet_hours": None})
    assert [t.name for t in upkeep.compactions_due()] == ["a"]


def hours(start: int, end: int) -> dict[str, str]:
    now = timezone.now()
    first, last = (now + timedelta(hours=n) for n in (start, end))
    return {"from": f"{first:%H:%M}", "to": f"{last:%H:%M}", "timezone": "UTC"}
