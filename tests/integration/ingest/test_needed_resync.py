"""A table that needs a re-sync needs it until a load is committed, whatever else is
asked of it meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from core.errors import InvalidRequest
from core.jobs import moves
from core.jobs.moves import conclude
from core.models import Job
from ingest.pipelines import table_commands
from ingest.pipelines.schema_approval import approve_schema_change, proposal_of
from ingest.pipelines.sync_job import start_sync
from tests.doubles.launcher import Fault
from tests.integration.ingest.test_schema_drift import INT, TEXT, alter, open_alerts

pytestmark = pytest.mark.django_db

# Both are strings in the lake: nothing there tells that values were cut.
CUT, WHOLE = ("character varying(5)", "string"), ("character varying(20)", "string")
NEEDED = ("schema_change", "resync_needed")


@pytest.fixture
def live(world: Any) -> Any:
    world.live("orders")
    source = world.pipeline("orders").source_table
    source.columns.filter(name="name").update(source_type=WHOLE[0])
    row = world.pipeline("orders")
    for column in row.plan["steps"][0]["columns"]:
        if column["name"] == "name":
            column["source_type"] = WHOLE[0]
    row.save()
    return world


def resync_is_cancelled(world: Any) -> None:
    world.until(lambda: world.jobs("resync")[-1].state == "RUNNING")
    table_commands.cancel_job(world.jobs("resync")[-1].pk, actor="ann")
    world.until(lambda: world.pipeline("orders").state == "PAUSED")


def needs_resync(world: Any, why: str) -> None:
    """It stays so when time passes, and through another pause."""
    for _ in range(2):
        world.steps(5)
        row = world.pipeline("orders")
        assert (row.state, row.due_at) == ("NEEDS_RESYNC", None)
        assert why in row.status_reason
        assert why in world.lake("orders").status_reason
        with pytest.raises(InvalidRequest, match="NEEDS_RESYNC"):
            table_commands.start_sync(world.lake("orders"), actor="ann")
        table_commands.pause(world.lake("orders"), actor="bob")
        assert why in proposal_of(world.lake("orders")).resync_needed
        table_commands.resume(world.lake("orders"), actor="bob")


def resync(world: Any) -> None:
    table_commands.start_resync(world.lake("orders"), actor="ann")
    world.until(lambda: world.jobs("resync")[-1].state == "SUCCEEDED")
    world.until_live("orders")
    assert proposal_of(world.lake("orders")).resync_needed == ""
    world.steps(1)
    assert open_alerts() == []
    # nothing of it is left for another pause
    table_commands.pause(world.lake("orders"), actor="bob")
    table_commands.resume(world.lake("orders"), actor="bob")
    world.until_live("orders")


def test_an_approved_change_needs_its_resync_also_when_that_is_cancelled(
    live: Any,
) -> None:
    lake = alter(live, name=CUT)
    assert live.pipeline("orders").state == "PAUSED"
    live.fail_with("resync", Fault.HANG)
    approve_schema_change(lake, actor="ann")
    assert open_alerts() == [NEEDED], "until it is brought"
    resync_is_cancelled(live)
    reason = live.pipeline("orders").status_reason
    assert "it still needs a resync: rows from before this change" in reason
    assert "character varying(20) → character varying(5)" in reason
    table_commands.resume(lake, actor="ann")
    needs_resync(live, "character varying(20) → character varying(5)")
    assert open_alerts() == [NEEDED]
    resync(live)


def test_a_cancelled_resync_of_an_approved_change_can_be_tried_again(
    live: Any,
) -> None:
    live.fail_with("resync", Fault.HANG)
    approve_schema_change(alter(live, name=CUT), actor="ann")
    resync_is_cancelled(live)
    table_commands.retry_job(live.jobs("resync")[-1].pk, actor="ann")
    live.until_live("orders")
    live.steps(1)
    assert open_alerts() == []


@pytest.mark.parametrize(
    ("changed", "back"),
    [
        (CUT, WHOLE),
        pytest.param(INT, WHOLE, marks=pytest.mark.long),
        pytest.param(None, WHOLE, marks=pytest.mark.long),
    ],
    ids=["cut by USING", "another type", "dropped and added again"],
)
def test_a_change_that_is_taken_back_may_have_altered_values(
    live: Any, changed: tuple[str, str] | None, back: tuple[str, str]
) -> None:
    lake = alter(live, name=changed)
    assert live.pipeline("orders").state == "PAUSED"
    assert open_alerts() == [("schema_change", "source_altered")]
    # a resume decides nothing
    table_commands.resume(lake, actor="ann")
    live.until(lambda: live.pipeline("orders").state == "PAUSED")
    alter(live, name=back)
    needs_resync(live, "column 'name'")
    assert open_alerts() == [NEEDED]
    resync(live)


@pytest.mark.long
def test_one_that_a_person_has_paused_stays_so_and_needs_it_when_resumed(
    live: Any,
) -> None:
    lake = live.lake("orders")
    table_commands.pause(lake, actor="ann")
    alter(live, name=CUT)
    alter(live, name=WHOLE)
    assert live.pipeline("orders").state == "PAUSED"
    table_commands.resume(lake, actor="ann")
    needs_resync(live, "column 'name'")
    resync(live)


@pytest.mark.long
def test_a_change_that_comes_and_goes_under_a_load_is_decided_after_it(
    live: Any,
) -> None:
    """Nobody knows which values the load has read."""
    before = len(live.launcher.submitted)
    table_commands.start_resync(live.lake("orders"), actor="ann")
    live.until(lambda: len(live.launcher.submitted) > before)
    alter(live, name=CUT)
    alter(live, name=WHOLE)
    assert live.pipeline("orders").state == "RESYNCING"
    live.until(lambda: live.jobs("resync")[-1].state == "SUCCEEDED")
    live.until(lambda: live.pipeline("orders").state == "NEEDS_RESYNC")
    resync(live)


def test_another_change_is_approved_with_the_resync_that_is_needed(live: Any) -> None:
    """A column that a sync could bring, on a table that no sync makes right."""
    live.fail_with("resync", Fault.HANG)
    lake = alter(live, name=CUT)
    approve_schema_change(lake, actor="ann")
    resync_is_cancelled(live)
    pipeline = live.pipeline("orders")
    pipeline.policy = {"schema_changes": "ask"}
    pipeline.save()
    alter(live, note=TEXT)
    told = proposal_of(lake)
    assert (told.changes, told.needs_resync) == (
        ("column 'note' (string) was added",),
        True,
    )
    assert approve_schema_change(lake, actor="ann").kind == "resync"
    live.until_live("orders")
    assert [c.name for c in lake.columns.all()][-1] == "note"
    live.steps(1)
    assert open_alerts() == []


def test_a_change_before_the_first_load_needs_none(world: Any) -> None:
    world.fail_with("snapshot", Fault.HANG)
    world.onboard("orders")
    world.until(lambda: world.jobs("snapshot")[-1].state == "RUNNING")
    table_commands.cancel_job(world.jobs("snapshot")[-1].pk, actor="ann")
    world.until(lambda: world.pipeline("orders").state == "PAUSED")
    lake = alter(world, name=INT)
    approve_schema_change(lake, actor="ann")
    assert proposal_of(lake).resync_needed == ""
    world.until_live("orders")
    world.steps(1)
    assert open_alerts() == []


# ------------------------------------------------------------------- a lost position


def lose(world: Any) -> None:
    """A sync finds other rows under the name of the table."""
    job = start_sync(world.pipeline("orders"), actor="ann")
    Job.objects.filter(pk=job.pk).update(state="RUNNING")
    job.refresh_from_db()
    refused = InvalidRequest("dropped and created again", code="source_recreated")
    conclude(job, moves.fail(job, refused))


def test_a_table_that_is_paused_and_resumed_still_needs_its_resync(live: Any) -> None:
    lose(live)
    needs_resync(live, "created again")
    table_commands.pause(live.lake("orders"), actor="ann")
    assert live.pipeline("orders").status_reason == "paused by ann"
    table_commands.resume(live.lake("orders"), actor="ann")
    resync(live)


def test_a_cancelled_resync_does_not_bring_the_position_back(live: Any) -> None:
    lose(live)
    live.fail_with("resync", Fault.HANG)
    table_commands.start_resync(live.lake("orders"), actor="ann")
    resync_is_cancelled(live)
    assert "it still needs a resync" in live.pipeline("orders").status_reason
    table_commands.resume(live.lake("orders"), actor="ann")
    needs_resync(live, "created again")
    resync(live)


def test_a_position_that_is_lost_while_the_table_is_being_paused(live: Any) -> None:
    job = start_sync(live.pipeline("orders"), actor="ann")
    Job.objects.filter(pk=job.pk).update(state="RUNNING")
    job.refresh_from_db()
    table_commands.pause(live.lake("orders"), actor="ann")
    job.refresh_from_db()
    refused = InvalidRequest("dropped and created again", code="source_recreated")
    conclude(job, moves.fail(job, refused))
    assert live.pipeline("orders").state == "PAUSED"
    table_commands.resume(live.lake("orders"), actor="ann")
    needs_resync(live, "created again")


@pytest.mark.parametrize("kind", ["snapshot", "resync"])
def test_a_load_that_a_change_stopped_goes_on_when_it_is_taken_back(
    world: Any, kind: str
) -> None:
    world.onboard("orders")
    if kind == "resync":
        world.until_live("orders")
        table_commands.start_resync(world.lake("orders"), actor="ann")
    alter(world, name=INT)
    world.until(lambda: all(job.is_finished for job in world.jobs(kind)))
    assert world.pipeline("orders").state == "PAUSED"
    alter(world, name=TEXT)
    world.until_live("orders")


def test_no_change_is_approved_while_a_load_of_before_may_still_commit(
    live: Any,
) -> None:
    """Its rows would end the need for those that are read behind the change."""
    table_commands.start_resync(live.lake("orders"), actor="ann")
    live.fail_with("resync", Fault.HANG)
    live.until(lambda: live.jobs("resync")[-1].state == "RUNNING")
    lake = alter(live, name=CUT)
    table_commands.pause(lake, actor="bob")
    assert live.jobs("resync")[-1].state == "CANCELLING"
    with pytest.raises(InvalidRequest, match="under a running load"):
        approve_schema_change(lake, actor="ann")
    live.until(lambda: live.jobs("resync")[-1].is_finished)
    approve_schema_change(lake, actor="ann")
    live.until_live("orders")
    live.steps(1)
    assert open_alerts() == []
