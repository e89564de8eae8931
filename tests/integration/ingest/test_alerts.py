"""What happens to tables becomes alerts, once; over REST as far as the caller may see."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from catalog.discovery import store
from catalog.models import Table
from ingest.alerts import lag, triggers
from ingest.alerts.rules import Finding
from ingest.alerts.store import open_alert
from ingest.models import Pipeline, TableHealth
from ingest.models.alerts import Alert, Presence
from ingest.pipelines import removal, sync_job
from ingest.pipelines.policies.store import change_table_policy
from ingest.pipelines.transitions import lose_position
from tests.doubles.launcher import Fault
from tests.integration.catalog.asking import grants_now, problem
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.integration.ingest.test_health import OLD, see, timeline_of

STUCK = Finding("stuck", cause="a", message="it stands still")


@pytest.fixture
def table(world: Any) -> int:
    world.live("orders")
    return world.lake("orders").pk


class Killed(BaseException):
    """No handler of errors catches it, as none outlives a kill."""


def die(*_: Any, **__: Any) -> None:
    raise Killed


def opened(**more: Any) -> list[str]:
    """What is open once the events of what happened are read."""
    triggers.read_events()
    return sorted(
        Alert.objects.filter(closed_at=None, **more).values_list("kind", flat=True)
    )


@pytest.mark.django_db
def test_a_failure_opens_one_alert_and_success_closes_it(world, admin, table) -> None:
    world.fail_with("sync", Fault.TERMINAL)
    admin("POST", f"tables/{table}:sync")
    world.until(lambda: world.pipeline("orders").state == "FAILED")
    (one,) = admin("GET", "alerts").json()["items"]
    assert (one["kind"], one["state"], one["count"]) == ("failed", "open", 1)
    assert (one["name"], one["table"]) == ("lake.shop.orders", table)
    job = world.jobs("sync")[-1]
    assert (one["job"], one["code"]) == (str(job.pk), job.error_code)
    # the same again counts, it opens nothing
    world.fail_with("sync", Fault.TERMINAL)
    admin("POST", f"tables/{table}:resume")
    world.until(lambda: Alert.objects.get().count == 2)
    world.until(lambda: world.pipeline("orders").state == "FAILED")
    # a success of something else takes nothing back
    admin("POST", f"tables/{table}:verify")
    world.until(lambda: world.jobs("verify")[-1].state == "SUCCEEDED")
    assert opened() == ["failed"]
    admin("POST", f"tables/{table}:resume")
    world.until_live("orders")
    world.steps(1)
    assert admin("GET", "alerts?state=open").json()["items"] == []
    (one,) = admin("GET", "alerts?state=closed&kind=failed").json()["items"]
    assert (one["closed_because"], one["count"]) == ("recovered", 2)


@pytest.mark.django_db
def test_a_failed_compaction_is_an_alert_until_one_goes_well(
    world, admin, table
) -> None:
    world.fail_with("compact", Fault.TERMINAL)
    admin("POST", f"tables/{table}:compact")
    world.until(lambda: opened() == ["failed"])
    alert = Alert.objects.get()
    assert (alert.sources, alert.count) == (["compact"], 1)
    assert str(alert.job) == str(world.jobs("compact")[0].pk)
    assert world.pipeline("orders").state == "LIVE", "its syncs go on"
    sync_job.start_sync(world.pipeline("orders"), actor="x")
    world.until(lambda: world.jobs("sync")[-1].is_finished)
    assert opened() == ["failed"], "a sync takes no compaction back"
    admin("POST", f"tables/{table}:compact")
    world.until(lambda: opened() == [])
    assert Alert.objects.get().closed_because == "recovered"


@pytest.mark.django_db
def test_a_failure_that_is_left_is_told_instead_of_one_that_is_over(
    world, admin, table
) -> None:
    world.fail_with("compact", Fault.TERMINAL)
    admin("POST", f"tables/{table}:compact")
    world.until(lambda: opened() == ["failed"])
    world.fail_with("sync", Fault.TERMINAL)
    sync_job.start_sync(world.pipeline("orders"), actor="x")
    world.until(lambda: Alert.objects.get().sources == ["compact", "sync"])
    assert Alert.objects.get().message.startswith("its sync failed: ")
    admin("POST", f"tables/{table}:resume")
    world.until(lambda: Alert.objects.get().sources == ["compact"])
    alert, compaction = Alert.objects.get(), world.jobs("compact")[0]
    assert (alert.closed_at, alert.job) == (None, compaction.pk)
    assert alert.message == f"its compaction failed: {compaction.error_message}"
    assert (alert.code, alert.hint) == (compaction.error_code, compaction.error_hint)


@pytest.mark.django_db
def test_a_sync_that_fails_in_passing_is_an_alert_the_second_time(world, table) -> None:
    pipeline = world.pipeline("orders")
    for count, expected in [(0, []), (1, ["failed"])]:
        Pipeline.objects.filter(pk=pipeline.pk).update(failures=count)
        job = sync_job.start_sync(world.pipeline("orders"), actor="x")
        job.attempts = job.max_attempts
        job.save()
        world.fail_with("sync", Fault.TRANSIENT)
        world.until(lambda job=job: type(job).objects.get(pk=job.pk).is_finished)
        assert opened() == expected
    assert world.pipeline("orders").state == "CATCHING_UP"


@pytest.mark.django_db
def test_a_table_behind_its_schedule_is_late_until_a_sync_ends(
    world, admin, table
) -> None:
    pipeline = world.pipeline("orders")
    assert pipeline.late_at is None, "syncs on request are never late"
    set_policy(pipeline, schedule={"every_seconds": 60}, late_after_seconds=600)
    world.steps(3)
    sync_job.start_sync(world.pipeline("orders"), actor="x")
    world.until(lambda: world.pipeline("orders").late_at is not None)
    wait = world.pipeline("orders").late_at - world.jobs("sync")[-1].started_at
    assert wait == timedelta(seconds=660)
    assert lag.open_late() == 0
    hour = timezone.now() - timedelta(hours=1)
    Pipeline.objects.filter(pk=pipeline.pk).update(late_at=hour, due_at=None)
    # its moment has come, and it has caught up meanwhile
    assert lag.open_late() == 1
    assert opened() == []
    Table.objects.filter(pk=table).update(caught_up_at=hour)
    Pipeline.objects.filter(pk=pipeline.pk).update(due_since=hour, late_at=hour)
    lag.open_late()
    assert lag.open_late() == 0, "one look is enough until a sync ends"
    one = Alert.objects.get()
    assert one.message.startswith("it shows the source as it was 1 h ago")
    # closed by hand it comes again: nothing has caught up
    admin("POST", f"alerts/{one.pk}:dismiss")
    again = world.pipeline("orders").late_at - timezone.now()
    assert timedelta(seconds=500) < again <= timedelta(seconds=600)
    Pipeline.objects.filter(pk=pipeline.pk).update(late_at=hour)
    lag.open_late()
    assert opened() == ["late"]
    sync_job.start_sync(world.pipeline("orders"), actor="x")
    world.until(lambda: opened() == [])
    assert world.pipeline("orders").late_at > timezone.now()


@pytest.mark.django_db
def test_a_night_in_which_sluice_was_down_makes_nothing_late_at_once(
    world, table
) -> None:
    set_policy(
        world.pipeline("orders"), schedule={"every_seconds": 60}, late_after_seconds=600
    )
    world.steps(3)
    now = timezone.now()
    evening = now - timedelta(hours=8)
    Presence.objects.update_or_create(pk=1, defaults={"seen_at": evening})
    lag.note_presence()
    lag.note_presence()
    row = Presence.objects.get()
    assert (row.away_since, row.seen_at) == (evening, row.back_at)
    # its state is of the evening: there was nobody to carry it
    Table.objects.filter(pk=table).update(caught_up_at=evening)
    rows = Pipeline.objects.filter(lake_table=table)
    rows.update(due_since=evening, late_at=evening, due_at=None)
    lag.open_late()
    assert opened() == []
    assert rows.get().late_at == row.back_at + timedelta(seconds=600)
    # not back for long enough, it is: nothing came in these minutes
    Presence.objects.update(back_at=now - timedelta(seconds=700))
    rows.update(late_at=evening)
    lag.open_late()
    assert opened() == ["late"]


@pytest.mark.django_db
@pytest.mark.parametrize("shown", ["", "as it was 8 h ago"])
def test_it_says_what_is_shown_and_ends_with_the_schedule(world, table, shown) -> None:
    set_policy(
        world.pipeline("orders"), schedule={"every_seconds": 60}, late_after_seconds=600
    )
    world.steps(3)
    evening = timezone.now() - timedelta(hours=8)
    # after a restore nobody knows which moment it shows
    Table.objects.filter(pk=table).update(caught_up_at=evening if shown else None)
    rows = Pipeline.objects.filter(lake_table=table)
    rows.update(due_since=evening, late_at=evening, due_at=None)
    lag.open_late()
    assert (
        shown or "has not caught up with its source yet"
    ) in Alert.objects.get().message
    change_table_policy(world.pipeline("orders"), {"schedule": "manual"})
    assert opened() == []
    assert rows.get().late_at is None


@pytest.mark.django_db
def test_a_nightly_table_is_late_only_with_what_its_sync_did_not_carry(
    world, table
) -> None:
    """Its rows end before the moment it runs at: by the safety lag, that is meant."""
    now = timezone.now()
    cron = {"cron": f"{now.minute} {now.hour} * * *", "timezone": "UTC"}
    set_policy(
        world.pipeline("orders"),
        schedule=cron,
        lag_seconds=900,
        late_after_seconds=1500,
    )

    def sync_held_back(seconds: float) -> timedelta:
        held = {"pid": 7, "age_seconds": seconds}
        world.launcher.facts["sync"] = {"held_back": held}
        job = sync_job.start_sync(world.pipeline("orders"), actor="x")
        world.until(lambda: type(job).objects.get(pk=job.pk).is_finished)
        return world.pipeline("orders").late_at - now

    assert sync_held_back(1200) > timedelta(hours=23)
    rows = Pipeline.objects.filter(lake_table=table)
    rows.update(late_at=now)
    assert lag.open_late() == 1
    assert rows.get().late_at - now > timedelta(hours=23), "judged again, the same"
    assert opened() == []
    # an hour is more than is allowed: it stays late until that is carried
    assert sync_held_back(4500) < timedelta(hours=1)
    rows.update(late_at=now - timedelta(days=1))
    Table.objects.filter(pk=table).update(caught_up_at=now - timedelta(days=1))
    rows.update(due_since=now - timedelta(days=1, minutes=1))
    lag.open_late()
    assert opened() == ["late"]
    sync_held_back(4500)
    assert opened() == ["late"]
    sync_held_back(0)
    assert opened() == []


def set_policy(pipeline: Pipeline, **given: Any) -> None:
    Pipeline.objects.filter(pk=pipeline.pk).update(policy=given)


@pytest.mark.django_db
def test_what_stands_still_opens_and_ends_with_the_looks(world, admin, table) -> None:
    file = timeline_of(world) / f"{OLD}.compaction.inflight"
    file.touch()
    see(world)
    see(world)
    triggers.read_events()
    (one,) = admin("GET", "alerts").json()["items"]
    assert (one["kind"], one["count"], one["repair"], one["instant"]) == (
        "stuck",
        1,
        "unschedule-compaction",
        OLD,
    )
    assert TableHealth.objects.values_list("pending", "stuck").get() == (1, 1)
    assert one["url"].endswith(f"/tables/{table}/health")
    file.unlink()
    see(world)
    assert opened() == []


@pytest.mark.django_db
def test_a_verification_that_differs_stays_until_one_is_equal(
    world, admin, table
) -> None:
    for verdict, expected in [
        ("different", ["verification_mismatch"]),
        ("undecided", ["verification_mismatch"]),
        ("equal", []),
    ]:
        world.launcher.facts["verify"] = {"verdict": verdict}
        count = len(world.jobs("verify")) + 1
        admin("POST", f"tables/{table}:verify")
        world.until(
            lambda n=count: len([j for j in world.jobs("verify") if j.is_finished]) == n
        )
        assert opened() == expected, verdict


@pytest.mark.django_db
def test_other_columns_at_the_source_are_an_alert(world, table) -> None:
    source = world.pipeline("orders").source_table
    # a change that leaves values as they are, so nothing is left to tell after it
    key = source.columns.filter(name="id")
    for status, mark, expected in [
        ("DISCOVERED", "other", ["schema_change"]),
        ("VANISHED", "other", ["schema_change"]),
        ("DISCOVERED", "as-planned", []),
    ]:
        key.update(nullable=mark != "as-planned")
        row = Table.objects.filter(pk=source.pk)
        row.update(status=status, schema_fingerprint=mark)
        for told in store.registered.altered:
            told(row.all())
            told(row.all())
        assert opened() == expected, (status, mark)
        if status == "VANISHED":
            told_of = Alert.objects.get()
            assert told_of.hint.startswith("remove the table here, or restore it")
            assert told_of.repair == "remove"
    assert Alert.objects.get().count == 2


@pytest.mark.django_db
@pytest.mark.parametrize("is_dropped_first", [True, False])
def test_no_resync_is_offered_of_a_table_that_was_dropped(
    world, table, is_dropped_first
) -> None:
    """Until it is there again."""

    def look(status: str) -> None:
        row = Table.objects.filter(pk=world.pipeline("orders").source_table_id)
        row.update(status=status)
        for told in store.registered.altered:
            told(row.all())

    def advice() -> tuple[str, str]:
        opened()
        one = Alert.objects.get(kind="failed", code="needs_resync", closed_at=None)
        return one.repair, one.hint.partition(":")[0]

    Pipeline.objects.update(capture="log")
    if is_dropped_first:
        look("VANISHED")
    lose_position(world.pipeline("orders"), reason="its log ended")
    if not is_dropped_first:
        assert advice() == ("resync", "resync the table")
        look("VANISHED")
    assert advice() == ("remove", "its source table was dropped")
    look("DISCOVERED")
    assert advice() == ("resync", "resync the table")


@pytest.mark.django_db
def test_pausing_and_removing_end_alerts_too(world, admin, table) -> None:
    for kind in ("late", "stuck"):
        open_alert(table, Finding(kind, cause="x", message="x"))
    admin("POST", f"tables/{table}:pause")
    assert opened() == ["stuck"]
    removal.start_removal(world.lake("orders"), drop_data=True, actor="root")
    world.until(lambda: not Table.objects.filter(pk=table).exists())
    assert opened() == []
    ends = Alert.objects.order_by("id").values_list("closed_because", "table", "name")
    assert list(ends) == [("paused", None, "orders"), ("removed", None, "orders")]


@pytest.mark.django_db
def test_who_may_not_see_a_table_sees_no_alert_of_it(admin, ann, lake_orders) -> None:
    open_alert(lake_orders.pk, STUCK)
    (one,) = admin("GET", "alerts").json()["items"]
    for held, seen in [(None, 0), ("discover", 1)]:
        grants_now(held, on="lake.shop.orders")
        assert len(ann("GET", "alerts").json()["items"]) == seen
    problem(ann("POST", f"alerts/{one['id']}:dismiss"), 403, "missing_privilege")
    grants_now(None)
    problem(ann("POST", f"alerts/{one['id']}:dismiss"), 404, "alert_not_found")
    grants_now("operate", on="lake.shop")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("catalog.access.audit.record", die)
        with pytest.raises(Killed):
            ann("POST", f"alerts/{one['id']}:dismiss")
    assert opened() == ["stuck"], "not closed without its line in the audit"
    body = ann("POST", f"alerts/{one['id']}:dismiss").json()
    assert (body["state"], body["closed_because"]) == ("closed", "dismissed")
    assert ann("POST", f"alerts/{one['id']}:dismiss").status_code == 200
    problem(admin("GET", "alerts?kind=nope"), 400, "invalid_request")
    problem(admin("GET", "alerts?state=nope"), 400, "invalid_request")
    assert admin("GET", f"alerts?table={lake_orders.pk}").json()["items"][0] == body
