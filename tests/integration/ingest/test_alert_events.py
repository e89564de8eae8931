"""Alerts are what the outbox tells: late, again, after a death, of tables that are gone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from catalog.models import Table
from core import outbox
from core.models import DomainEvent
from core.outbox import NewEvent
from ingest.alerts import store, triggers
from ingest.alerts.rules import Finding
from ingest.models import TableHealth
from ingest.models.alerts import Alert
from ingest.pipelines import removal, sync_job, table_job
from tests.doubles.launcher import Fault
from tests.integration.ingest.test_alerts import Killed, die, opened
from tests.integration.ingest.test_health import see

pytestmark = pytest.mark.django_db


@pytest.fixture
def table(world: Any) -> int:
    world.live("orders")
    return world.lake("orders").pk


def topics() -> list[str]:
    rows = DomainEvent.objects.exclude(topic__endswith=".moved").order_by("id")
    return list(rows.values_list("topic", flat=True))


def fail_unread(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync fails while nobody reads the outbox."""
    with monkeypatch.context() as patch:
        patch.setattr(triggers, "read_events", lambda: 0)
        world.fail_with("sync", Fault.TERMINAL)
        sync_job.start_sync(world.pipeline("orders"), actor="x")
        world.until(lambda: world.pipeline("orders").state == "FAILED")
    assert not Alert.objects.exists()


def test_a_sync_that_commits_appends_its_end(world, table, monkeypatch) -> None:
    world.steps(1)  # a first look at its health
    DomainEvent.objects.all().delete()
    monkeypatch.setattr(triggers, "read_events", lambda: 0)
    sync_job.start_sync(world.pipeline("orders"), actor="x")
    with CaptureQueriesContext(connection) as asked:
        world.until(lambda: world.jobs("sync")[-1].is_finished)
    assert topics() == ["job.succeeded"]
    ended = DomainEvent.objects.get(topic="job.succeeded")
    assert ended.data == {"v": 1, "kind": "sync", "table": table, "caught_up": True}
    sqls = [query["sql"] or "" for query in asked]
    written = [sql for sql in sqls if "INSERT INTO core_domainevent" in sql]
    assert len(written) == 1


def test_an_alert_has_the_moment_of_what_happened(world, table, monkeypatch) -> None:
    fail_unread(world, monkeypatch)
    failed = DomainEvent.objects.get(topic="job.failed")
    DomainEvent.objects.filter(pk=failed.pk).update(at=failed.at - timedelta(hours=1))
    assert opened() == ["failed"]
    alert = Alert.objects.get()
    assert alert.first_seen_at == failed.at - timedelta(hours=1)
    assert str(alert.job) == failed.subject_id


def test_cut_off_between_the_event_and_its_alert_neither_is_there(
    world, table, monkeypatch
) -> None:
    """The event is in the transaction of the end: the job is judged again, alert and all."""
    world.fail_with("sync", Fault.TERMINAL)
    job = sync_job.start_sync(world.pipeline("orders"), actor="x")
    monkeypatch.setattr(table_job, "report_failure", die)
    with pytest.raises(Killed), transaction.atomic():
        world.until(lambda: False)
    assert not Alert.objects.exists()
    monkeypatch.undo()
    assert not type(job).objects.get(pk=job.pk).is_finished
    world.new_host()
    world.fail_with("sync", *[Fault.TERMINAL] * 2)
    world.until(lambda: opened() == ["failed"])


def test_a_handler_is_killed_and_the_event_is_handled_again(
    world, table, monkeypatch
) -> None:
    fail_unread(world, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(store, "open_alert", die)
        with pytest.raises(Killed):
            triggers.read_events()
    assert opened() == ["failed"]


def test_what_is_read_late_ends_no_alert_that_time_brought_since(
    world, table, monkeypatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(triggers, "read_events", lambda: 0)
        sync_job.start_sync(world.pipeline("orders"), actor="x")
        world.until(lambda: world.jobs("sync")[-1].is_finished)
    late = Finding("late", cause="x", message="x")
    store.open_alert(table, late, at=timezone.now() + timedelta(seconds=1))
    assert opened() == ["late"]
    store.close(store.open_on(table))
    store.open_alert(table, late)
    sync_job.start_sync(world.pipeline("orders"), actor="x")
    world.until(lambda: opened() == [])


def test_events_of_a_table_that_is_gone_open_nothing_and_end_all(
    world, table, monkeypatch
) -> None:
    fail_unread(world, monkeypatch)
    assert opened() == ["failed"]
    with monkeypatch.context() as patch:
        patch.setattr(triggers, "read_events", lambda: 0)
        broken = [{"code": "lock_taken", "points": 9, "reason": "x"}]
        outbox.append(
            NewEvent("health.changed", "table", str(table), {"issues": broken})
        )
        removal.start_removal(world.lake("orders"), drop_data=True, actor="root")
        world.until(lambda: not Table.objects.filter(pk=table).exists())
    assert Alert.objects.filter(closed_at=None, table=None).exists()
    assert opened() == []
    assert Alert.objects.get().closed_because == "removed"
    late = {"kind": "sync", "table": table, "attempts": 1, "failures": 0}
    words = {"code": "x", "message": "x", "hint": ""}
    outbox.append(NewEvent("job.failed", "job", "no-job", late | words))
    assert opened() == []


@pytest.mark.django_db(transaction=True)
def test_what_was_committed_before_a_restart_becomes_an_alert_behind_it(
    world, table, monkeypatch
) -> None:
    """With transactions of their own, as processes have them."""
    fail_unread(world, monkeypatch)
    connection.close()
    world.new_host()
    world.steps(3)
    connection.close()
    world.steps(1)
    (alert,) = Alert.objects.all()
    assert (alert.kind, alert.count, alert.is_announced) == ("failed", 1, True)


def test_health_that_stays_as_it_is_appends_nothing(world, table) -> None:
    see(world)
    DomainEvent.objects.all().delete()
    see(world)
    assert topics() == []
    TableHealth.objects.update(score=50)
    see(world)
    assert topics() == ["health.changed"]


def test_the_reason_of_a_failure_is_all_that_an_event_says_of_a_source(
    world, table, monkeypatch
) -> None:
    """No password, no value of a row, no spec."""
    fail_unread(world, monkeypatch)
    for event in DomainEvent.objects.all():
        assert "canary" not in str(event.data)
        assert len(str(event.data)) < 1000
        assert event.data["v"] == 1
