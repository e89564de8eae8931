"""A kind of job is one value in one place: two dummy kinds, one for each executor,
go from their start to every ending without a line of the engine knowing them."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from core.errors import TerminalError, TransientError
from core.jobs import moves, pages
from core.jobs.moves import JobKind, kinds_of, register
from core.jobs.pages import PagedKind
from core.models import Job
from ingest.jobs.kinds import DriverKind, driver_kind
from ingest.jobs.queue import LANE_LIMITS
from ingest.pipelines import table_commands
from ingest.scheduler import tick
from tests.doubles.launcher import Fault
from tests.integration.ingest.job_kinds.dummy_kinds import (
    COUNT,
    committed,
    count,
    ended,
    noted,
    now,
    polish,
    trouble,
)

pytestmark = pytest.mark.django_db


# ----------------------------------------------------------------------- in a driver


def test_from_its_start_to_its_end(table) -> None:
    job = ended(table, polish(table), "SUCCEEDED")
    assert noted == ["claimed", "succeeded"]
    moves = list(job.events.values_list("event", flat=True))
    assert moves == ["enqueue", "claim", "accepted", "succeed"]
    assert (job.lane, job.max_attempts, job.attempts) == ("maintenance", 2, 1)
    assert job.exclusive_key.endswith(":write")
    assert job.spec["kind"] == "polish"
    assert job.handle["scopes"] == ["write", "service"]
    assert job.report["outcome"] == "succeeded"


def test_one_that_waits_already_is_returned(table) -> None:
    first = polish(table)
    assert polish(table).pk == first.pk


def test_it_fails_at_once_or_after_its_attempts(table) -> None:
    job = ended(table, polish(table, Fault.TERMINAL), "FAILED")
    assert noted == ["claimed", "failed: fake_terminal"]
    assert (job.error_code, job.attempts) == ("fake_terminal", 1)
    noted.clear()
    job = ended(table, polish(table, *[Fault.TRANSIENT] * 2), "FAILED")
    assert job.attempts == 2
    assert noted == [
        "claimed", "retried", "claimed", "failed: fake_transient",
    ]  # fmt: skip


def test_it_is_refused_before_it_runs(table) -> None:
    job = ended(table, polish(table, refused=True), "FAILED")
    assert (noted, job.attempts) == (["rejected: scratched"], 0)


def test_it_is_cancelled_while_it_waits_and_while_it_runs(table) -> None:
    job = polish(table)
    table_commands.cancel_job(job.pk, actor="bob")
    assert Job.objects.get(pk=job.pk).state == "CANCELLED"
    job = polish(table, Fault.HANG)
    table.until(lambda: Job.objects.get(pk=job.pk).state == "RUNNING")
    table_commands.cancel_job(job.pk, actor="bob")
    ended(table, job, "CANCELLED")
    assert noted == [
        "cancelled by bob, never ran", "claimed", "cancelled by bob, ran",
    ]  # fmt: skip


def test_a_lost_driver_is_judged_by_the_timeline(table) -> None:
    job = ended(table, polish(table, Fault.DIE_RUNNING), "SUCCEEDED")
    assert noted == ["claimed", "retried", "claimed", "succeeded"]
    assert (job.attempts, job.max_attempts) == (2, 3)
    committed.append(True)
    noted.clear()
    job = ended(table, polish(table, Fault.DIE_RUNNING), "SUCCEEDED")
    assert noted == ["claimed", "succeeded"]
    assert job.report == {"v": 1, "from": "timeline", "facts": {"instants": []}}


# -------------------------------------------------------------------------- in pages


def test_pages_follow_one_another(world) -> None:
    job = count()
    tick.Ticking().tick()
    assert now(job) == ("RUNNING", 1, 0)
    # the worker dies with the page that it has not saved: the next one does it again
    trouble.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        pages.advance(job.pk)
    assert now(job) == ("RUNNING", 1, 0)
    assert pages.advance(job.pk)
    assert pages.advance(job.pk)
    assert now(job) == ("SUCCEEDED", 3, 0)
    assert not pages.advance(job.pk)


def test_a_page_fails_and_is_tried_again(world, monkeypatch) -> None:
    job = count()
    pages.advance(job.pk)
    trouble.append(TransientError("the pencil broke", code="pencil"))
    assert not pages.advance(job.pk)
    assert now(job) == ("QUEUED", 1, 1)
    assert (job.error_code, job.reason) == (
        "pencil", "the pencil broke; try 2 in 0 s",
    )  # fmt: skip
    assert pages.advance(job.pk)
    assert now(job) == ("RUNNING", 2, 0)
    trouble.append(TerminalError("no paper", code="paper"))
    pages.advance(job.pk)
    assert now(job) == ("FAILED", 2, 0)
    assert job.error_code == "paper"


def test_a_defect_in_a_page_ends_its_job_and_no_other(world, monkeypatch) -> None:
    broken, sound = count(), count()
    replace(monkeypatch, save=_save_of(broken, COUNT.save))
    pages.advance_in_beat()
    assert now(sound) == ("RUNNING", 1, 0)
    assert now(broken) == ("QUEUED", 0, 1)
    pages.advance_in_beat()
    assert now(broken) == ("FAILED", 0, 1)
    assert (broken.error_code, "KeyError" in broken.error_message) == ("defect", False)


def test_a_page_that_takes_too_long_keeps_no_other_from_its_turn(
    world, monkeypatch
) -> None:
    too_long, sound = count(), count()

    def save(job: Job, found: object) -> Any:
        if job.pk == too_long.pk:
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL statement_timeout = 1; SELECT pg_sleep(5)")
        return COUNT.save(job, found)

    replace(monkeypatch, save=save)
    pages.advance_in_beat()
    assert (now(too_long), now(sound)) == (("QUEUED", 0, 1), ("RUNNING", 1, 0))
    assert too_long.error_code == "statement_ended"
    pages.advance_in_beat()
    assert (now(too_long), now(sound)) == (("FAILED", 0, 1), ("RUNNING", 2, 0))


def replace(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """COUNT is another value meanwhile."""
    other = dataclasses.replace(COUNT, **changes)
    monkeypatch.setitem(moves._registered, "count", other)


def _save_of(broken: Job, save: Any) -> Any:
    def fails(job: Job, found: object) -> Any:
        if job.pk == broken.pk:
            raise KeyError("not there")
        return save(job, found)

    return fails


def test_those_that_wait_do_not_keep_others_from_their_turn(world, monkeypatch) -> None:
    monkeypatch.setattr(pages, "MOST_IN_BEAT", 2)
    waiting = [count() for _ in range(3)]
    keys = {job.pk for job in waiting}
    replace(monkeypatch, admit=lambda job: job.pk not in keys)
    free = count()
    for _ in range(3):
        pages.advance_in_beat()
    assert now(free)[0] != "QUEUED"


def test_pages_end_on_request(world) -> None:
    job = count()
    pages.advance(job.pk)
    table_commands.cancel_job(job.pk, actor="ann")
    tick.Ticking().tick()
    assert now(job) == ("CANCELLED", 1, 0)


def test_a_page_that_waits_for_its_time_is_left_alone(world) -> None:
    job = count(not_before=timezone.now() + timedelta(hours=1))
    assert not pages.advance(job.pk)
    assert now(job) == ("QUEUED", 0, 0)


# ----------------------------------------------------------------------- the registry


def test_a_name_has_one_kind_and_a_kind_one_executor() -> None:
    with pytest.raises(ValueError, match="two kinds"):
        register(dataclasses.replace(COUNT, title="other"))
    with pytest.raises(TerminalError, match="not done in pages"):
        pages.paged("polish")
    with pytest.raises(TerminalError, match="not executed by a driver"):
        driver_kind("count")


def test_every_kind_says_what_the_engine_asks() -> None:
    assert len({each.name for each in kinds_of(JobKind)}) == 12
    for each in kinds_of(JobKind):
        assert each.title
        assert isinstance(each, DriverKind | PagedKind)
    for driver in kinds_of(DriverKind):
        assert driver.lane in LANE_LIMITS
        # everywhere in this order, so that two jobs never wait for one another
        assert driver.scopes in {("write",), ("service",), ("write", "service")}
