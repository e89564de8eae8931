"""A job of which nothing comes is an alert that says why, and ends with it."""

from __future__ import annotations

import errno
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from catalog.discovery.services import start_look
from core.jobs import moves
from core.models import Job
from core.sentences import Sentence
from ingest.alerts import stalled
from ingest.driver_host import attempts
from ingest.jobs import leases
from ingest.lake.fence import raise_fence
from ingest.lake.files import storage_error
from ingest.models.alerts import Alert, Presence
from ingest.pipelines import sync_job
from tests.integration.catalog.conftest import *  # noqa: F403  the same people

LONG = timedelta(seconds=301)
LOCKED = Sentence("waits for a lock at the source, held by pid %(pid)s", pid=7)


@pytest.fixture
def now() -> datetime:
    return timezone.now()


@pytest.fixture
def running(world: Any, now: datetime) -> Job:
    """A sync at work, of which something came just now."""
    world.live("orders")
    job = sync_job.start_sync(world.pipeline("orders"), actor="x")
    return kept(job, state="RUNNING", moved_at=now, reason=LOCKED)


def kept(job: Job, **changes: Any) -> Job:
    Job.objects.filter(pk=job.pk).update(**changes)
    job.refresh_from_db()
    return job


def opened(now: datetime) -> list[Any]:
    """What the alerts say once all has been looked at, at that time."""
    stalled.compare_stalled(now)
    rows = Alert.objects.filter(kind="stalled", closed_at=None)
    return list(rows.values_list("message", flat=True))


@pytest.mark.django_db
def test_it_opens_once_says_why_and_ends_when_the_job_moves(
    running: Job, now: datetime, admin: Any, django_assert_num_queries: Any
) -> None:
    assert opened(now + timedelta(seconds=299)) == []
    (said,) = opened(now + LONG)
    assert LOCKED in said
    assert f"since {running.moved_at:%Y-%m-%d %H:%M:%S} UTC" in said
    assert said.parameters["why"].parameters == {"pid": "7"}
    assert opened(now + 2 * LONG) == [said]
    kept(running, reason="waits for its rate of 5 rows per second")
    (said,) = opened(now + 2 * LONG)
    assert "its rate of 5 rows" in said
    (one,) = admin("GET", "alerts?kind=stalled").json()["items"]
    assert (one["job"], one["count"]) == (str(running.pk), 1)
    assert one["url"].endswith(f"/jobs/{running.pk}")
    with django_assert_num_queries(6):
        # the look, a savepoint, this list; as many for any number of jobs
        opened(now + 2 * LONG)
    kept(running, moved_at=now + 2 * LONG)
    assert opened(now + 2 * LONG) == []
    assert Alert.objects.get().closed_because == "recovered"


@pytest.mark.django_db
def test_an_end_of_the_job_ends_it(running: Job, now: datetime) -> None:
    assert opened(now + LONG)
    kept(running, state="CANCELLED")
    assert opened(now + LONG) == []


@pytest.mark.django_db
def test_the_pause_before_the_next_attempt_is_no_recovery(
    running: Job, now: datetime
) -> None:
    (said,) = opened(now + LONG)
    kept(running, state="QUEUED", not_before=now + 2 * LONG)
    assert opened(now + LONG) == [said]
    kept(running, state="FAILED")
    assert opened(now + LONG) == []


@pytest.mark.django_db
def test_one_that_was_dismissed_opens_again_when_the_job_stops_anew(
    running: Job, now: datetime, admin: Any
) -> None:
    opened(now + LONG)
    admin("POST", f"alerts/{Alert.objects.get().pk}:dismiss")
    assert opened(now + 2 * LONG) == []
    kept(running, moved_at=now + LONG)
    assert opened(now + 3 * LONG)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("other", "is_told"),
    [({}, True), ({"lane": "apply"}, False), ({"subject": True}, False)],
    ids=["nothing-moves", "its-lane-moves", "its-table-moves"],
)
def test_who_waits_in_a_queue_that_moves_waits_its_turn(
    running: Job, now: datetime, other: dict[str, Any], is_told: bool
) -> None:
    waiting = kept(running, state="QUEUED", moved_at=None, queued_at=now)
    if other:
        Job.objects.create(
            kind="resync",
            state="RUNNING",
            moved_at=now + LONG,
            lane=other.get("lane", "snapshot"),
            subject_id=waiting.subject_id if "subject" in other else "0",
        )
    assert bool(opened(now + LONG)) is is_told
    kept(waiting, not_before=now + LONG)
    assert opened(now + LONG) == [], "as configured wait"


@pytest.mark.django_db
def test_of_a_queue_that_stands_still_the_first_of_each_source_is_told(
    world: Any, now: datetime
) -> None:
    """A source that is away keeps up all that waits for it: one alert says so."""
    names = ["orders", "items", "customers"]
    world.onboard(*names)
    world.until_live(*names)
    for number, name in enumerate(names):
        job = sync_job.start_sync(world.pipeline(name), actor="x")
        kept(job, queued_at=now + timedelta(seconds=number))
    kept(job, share_key="another source")
    opened(now + LONG + LONG)
    told = Alert.objects.filter(kind="stalled", closed_at=None)
    assert {alert.name for alert in told} == {"orders", "customers"}


@pytest.fixture(params=["full-disk", "no-look"])
def put_off(request: Any, world: Any, monkeypatch: Any, now: datetime) -> Any:
    """A sync that waited an hour for a place, beside others that move, and cannot
    begin now; what it says."""
    world.live("orders")
    job = sync_job.start_sync(world.pipeline("orders"), actor="x")
    kept(job, queued_at=now - 12 * LONG)
    Job.objects.create(kind="sync", state="RUNNING", lane="apply", moved_at=now)
    if request.param == "no-look":
        look = start_look([world.pipeline("orders").source_table], by="x")
        kept(job, payload=job.payload | {"look": str(look.pk)})
        return job, "until the columns at the source are read again"
    full = storage_error(OSError(errno.ENOSPC, "full"), Path("/lake/fence/1"))

    def fails(*_: Any) -> None:
        raise full

    monkeypatch.setattr(leases, "raise_fence", fails)
    return job, "the lake's storage is full while writing 1"


def try_at(at: datetime, monkeypatch: Any) -> list[str]:
    """The job is tried then; what alerts say of that."""
    monkeypatch.setattr(moves, "timezone", SimpleNamespace(now=lambda: at))
    attempts.claim_queued()
    return opened(at)


@pytest.mark.django_db
def test_one_that_is_put_off_again_and_again_is_told_until_it_moves(
    put_off: Any, now: datetime, world: Any, monkeypatch: Any
) -> None:
    job, reason = put_off
    with monkeypatch.context() as clock:
        assert try_at(now - LONG, clock) == []
        assert try_at(now - LONG / 2, clock) == []
        assert reason in kept(job).reason
        (said,) = try_at(now, clock)
    assert reason in said
    assert f"since {job.queued_at:%Y-%m-%d %H:%M:%S} UTC" in said
    kept(job, payload=job.payload | {"look": None}, not_before=None)
    monkeypatch.setattr(leases, "raise_fence", raise_fence)
    world.until(lambda: kept(job).attempts > 0)
    assert opened(timezone.now()) == []


@pytest.mark.django_db
def test_one_that_is_put_off_now_and_then_waits_its_turn(
    put_off: Any, now: datetime, monkeypatch: Any
) -> None:
    assert try_at(now - 2 * LONG, monkeypatch) == []
    assert opened(now - LONG) == [], "once, and its turn comes later"
    assert try_at(now, monkeypatch) == []


@pytest.mark.django_db
def test_nothing_moves_while_nobody_is_there(running: Job, now: datetime) -> None:
    seen = now + LONG
    Presence.objects.update_or_create(
        pk=1, defaults={"seen_at": seen, "away_since": now, "back_at": seen}
    )
    assert opened(seen) == []
    assert opened(seen + LONG)


@pytest.mark.django_db
def test_an_attempt_that_begins_is_no_progress(world: Any, admin: Any) -> None:
    world.live("orders")
    job = sync_job.start_sync(world.pipeline("orders"), actor="x")
    old = timezone.now() - LONG
    kept(job, moved_at=old, attempts=1)
    world.until(lambda: kept(job).is_finished)
    assert kept(job).attempts == 2
    assert kept(job).moved_at == old, "the fake driver tells of no rows"


@pytest.mark.django_db
def test_rest_says_since_when(running: Job, now: datetime, admin: Any) -> None:
    body = admin("GET", f"jobs/{running.pk}").json()
    assert body["stalled_since"] is None
    kept(running, moved_at=now - LONG)
    body = admin("GET", f"jobs/{running.pk}").json()
    assert body["stalled_since"] == body["moved_at"] is not None
