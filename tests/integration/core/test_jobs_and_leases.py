from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction

from core.advance import advance
from core.errors import IllegalTransition, StaleState
from core.leases import Held, next_token, release_all, take_lease
from core.models import Job, Lease

pytestmark = pytest.mark.django_db


def make(**facts: object) -> Job:
    return Job.objects.create(kind="walk", **facts)


def test_a_move_writes_state_and_history_together() -> None:
    job = make()
    advance(job, "enqueue", actor="ann", reason="asked")
    job.refresh_from_db()
    assert job.state == "QUEUED"
    event = job.events.get()
    assert (event.before, event.after, event.actor) == ("PLANNED", "QUEUED", "ann")


def test_the_second_of_two_movers_is_told_and_leaves_no_trace() -> None:
    job = make()
    other = Job.objects.get(pk=job.pk)
    advance(job, "enqueue")
    with pytest.raises(StaleState):
        advance(other, "enqueue")
    assert job.events.count() == 1


def test_an_illegal_move_changes_nothing() -> None:
    job = make()
    with pytest.raises(IllegalTransition):
        advance(job, "succeed")
    job.refresh_from_db()
    assert job.state == "PLANNED"


def test_one_active_job_per_key_is_the_databases_own_rule() -> None:
    first, second = (
        make(exclusive_key="k", state="RUNNING"),
        make(exclusive_key="k"),
    )
    advance(second, "enqueue")
    with pytest.raises(IntegrityError), transaction.atomic():
        advance(second, "claim")
    advance(first, "succeed")
    second.refresh_from_db()
    advance(second, "claim")


def is_held(held: Held) -> bool:
    rows = Lease.objects.filter(owner=held.owner, expires_at__isnull=False)
    return rows.filter(name=held.name, token=held.token).exists()


def test_a_lease_excludes_others_and_its_token_only_grows() -> None:
    held = take_lease("t", owner="a", seconds=30)
    assert held is not None
    assert take_lease("t", owner="b", seconds=30) is None
    assert is_held(held)
    release_all(held.owner)
    again = take_lease("t", owner="b", seconds=30)
    assert again is not None
    assert again.token > held.token
    assert not is_held(held)


def test_the_same_owner_keeps_his_token() -> None:
    first = take_lease("t", owner="a", seconds=30)
    second = take_lease("t", owner="a", seconds=30)
    assert first == second


def test_an_expired_lease_is_free_and_fences_its_owner() -> None:
    old = take_lease("t", owner="a", seconds=-1)
    new = take_lease("t", owner="b", seconds=30)
    assert old is not None
    assert new is not None
    assert new.token == old.token + 1
    assert not is_held(old)


def test_a_take_over_raises_the_token() -> None:
    held = take_lease("t", owner="a", seconds=30)
    assert held is not None
    assert next_token("t") == held.token + 1
    assert not is_held(held)
