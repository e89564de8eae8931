"""Verification by policy: what is due is queued, within its limits, and has an end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from core.models import Job
from ingest.contract.following import Replaced
from ingest.maintenance import verification_schedule
from ingest.models import Pipeline
from ingest.models.alerts import Alert
from ingest.pipelines import metrics, replaced, table_commands
from ingest.pipelines.policies import store
from tests.doubles.launcher import Fault
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.integration.ingest.test_rest import grant
from tests.integration.ingest.test_verify import DIFFERENT, EQUAL

pytestmark = pytest.mark.django_db
DAILY = {"verify_every": 86_400}


@pytest.fixture
def table(world: Any) -> int:
    world.live("orders")
    world.launcher.facts["verify"] = EQUAL
    return world.lake("orders").pk


def pipeline(world: Any) -> Pipeline:
    return Pipeline.objects.get(pk=world.pipeline("orders").pk)


def verified(world: Any, facts: dict[str, Any]) -> Job:
    """The job that the policy brings about."""
    world.launcher.facts["verify"] = facts
    store.change_policy(world.source, None, DAILY)
    world.until(lambda: [j.state for j in world.jobs("verify")] == ["SUCCEEDED"])
    return world.jobs("verify")[-1]


def test_nothing_is_verified_unless_a_policy_asks(world, table) -> None:
    assert verification_schedule.start_due_verifications() == 0
    assert pipeline(world).verify_at is None


def test_a_policy_of_the_source_verifies_its_table_within_its_budget(
    world, table, admin
) -> None:
    job = verified(world, EQUAL)
    assert job.requested_by == "schedule"
    spec = next(s for s in world.launcher.submitted if s.kind == "verify")
    assert spec.verify.rows_per_second == 50_000
    row = pipeline(world)
    assert (row.verdict, row.verified_job) == ("equal", job.pk)
    assert row.verify_at - row.verified_at == timedelta(days=1)
    body = admin("GET", f"tables/{table}/health").json()["verification"]
    assert body["result"] == "equal"
    assert body["job"] == str(job.pk)
    samples = {
        s.name: s.value for m in metrics.gauges() for s in m.samples if not s.labels
    }
    assert samples["sluice_verifications_due"] == 0


def test_who_asks_himself_waits_for_no_budget(world, table) -> None:
    table_commands.start_verify(world.lake("orders"), actor="ann")
    world.until(lambda: world.jobs("verify")[-1].state == "SUCCEEDED")
    spec = next(s for s in world.launcher.submitted if s.kind == "verify")
    assert spec.verify.rows_per_second == 0
    assert pipeline(world).verdict == "equal"


def test_a_difference_is_an_alert_with_counts_keys_and_the_repair(
    world, table, admin, person, django_user_model
) -> None:
    verified(world, DIFFERENT)
    alert = Alert.objects.get(kind="verification_mismatch", closed_at=None)
    assert "2 rows missing in the lake" in alert.message
    assert "CANARY" not in alert.message
    assert alert.repair == "resync"
    client = Client()
    client.force_login(django_user_model.objects.filter(is_superuser=True).first())
    assert b"CANARY-1" in client.get("/alerts").content
    person("ann2")
    grant(admin, "user:ann2", "discover", "lake.shop.orders")
    client.force_login(django_user_model.objects.get(username="ann2"))
    seen = client.get("/alerts").content
    assert b"2 rows missing" in seen
    assert b"CANARY" not in seen


def test_one_that_fails_changes_nothing_and_is_tried_again(world, table) -> None:
    first = verified(world, EQUAL)
    world.fail_with("verify", Fault.TERMINAL)
    Pipeline.objects.update(verified_at=timezone.now() - timedelta(days=2))
    Pipeline.objects.update(verify_at=timezone.now())
    world.until(lambda: world.jobs("verify")[-1].state == "FAILED")
    after = pipeline(world)
    assert (after.verdict, after.verified_job) == ("equal", first.pk)
    wait = after.verify_at - timezone.now()
    assert timedelta(minutes=50) < wait <= timedelta(hours=1)
    assert Alert.objects.get(closed_at=None).kind == "failed"


def test_few_wait_at_once_and_one_for_each_source(world) -> None:
    for name in ("a", "b", "c"):
        world.onboard(name)
        world.until_live(name)
    world.launcher.stop()
    store.change_policy(world.source, None, DAILY)
    assert verification_schedule.start_due_verifications() == 1
    assert verification_schedule.start_due_verifications() == 0
    assert len(world.jobs("verify")) == 1


def test_a_load_makes_the_result_void(world, table) -> None:
    verified(world, EQUAL)
    table_commands.start_resync(world.lake("orders"), actor="ann")
    world.launcher.facts["verify"] = DIFFERENT
    world.until(lambda: pipeline(world).verdict == "different")


def test_zero_on_the_table_switches_it_off(world, table) -> None:
    store.change_table_policy(world.pipeline("orders"), {"verify_every": 0})
    store.change_policy(world.source, None, DAILY)
    assert verification_schedule.start_due_verifications() == 0
    assert pipeline(world).verify_at is None


def test_outside_of_its_quiet_hours_it_waits(world, table) -> None:
    now = timezone.now()
    hours = {
        "from": f"{now + timedelta(hours=2):%H:%M}",
        "to": f"{now + timedelta(hours=3):%H:%M}",
    }
    store.change_policy(world.source, None, {**DAILY, "maintenance_window": hours})
    assert verification_schedule.start_due_verifications() == 0
    wait = pipeline(world).verify_at - now
    assert timedelta(hours=1) < wait <= timedelta(hours=2)


SWAP = Replaced("gh-ost", "at 5", 1_700_000_000_000_000)


def test_a_source_that_was_replaced_is_verified_at_once(world, table, admin) -> None:
    Pipeline.objects.update(capture="log")
    before = world.lake("orders")
    earlier = table_commands.start_verify(before, actor="ann")
    replaced.note({table: SWAP})
    seen = admin("GET", f"tables/{table}/schema-change").json()["replaced"]
    assert seen.startswith("gh-ost replaced the table at the source at 2023-11-14T22")
    # what it compared may be the table of before
    world.until(lambda: len(world.jobs("verify")) == 2)
    world.until(lambda: not replaced.described(pipeline(world)))
    first, second = world.jobs("verify")
    assert (first.pk, second.requested_by) == (earlier.pk, "schedule")
    replaced.note({table: SWAP})
    assert verification_schedule.start_due_verifications() == 0
    assert pipeline(world).verify_at is None
    replaced.note({table: None})
    assert pipeline(world).replaced == {}


def test_one_that_says_nothing_of_a_replaced_source_is_tried_again(
    world, table
) -> None:
    Pipeline.objects.update(capture="log")
    world.fail_with("verify", Fault.TERMINAL)
    replaced.note({table: SWAP})
    world.until(lambda: [j.state for j in world.jobs("verify")] == ["FAILED"])
    after = pipeline(world)
    assert replaced.is_unverified(after)
    assert after.verify_at > timezone.now() + timedelta(minutes=50)
