"""Which tables a source's follower is told of, and where their loads stand."""

from __future__ import annotations

from typing import Any

import pytest

from core.errors import TerminalError
from core.models import Job
from ingest.contract.following import FollowTable
from ingest.models import Pipeline
from ingest.pipelines import needed_resync
from ingest.pipelines.log_tables import FollowedTables, follow_spec, followed_tables
from tests.integration.ingest.world import make_source

pytestmark = pytest.mark.django_db


@pytest.fixture
def followed(world: Any) -> Any:
    world.onboard("orders", "items", "other")
    Pipeline.objects.exclude(source_table__name="other").update(capture="log")
    return world


def told(world: Any) -> dict[str, FollowTable]:
    return {one.table.source_table: one for one in followed_tables(world.source)}


def change(world: Any, name: str, **changes: Any) -> Pipeline:
    Pipeline.objects.filter(pk=world.pipeline(name).pk).update(**changes)
    found: Pipeline = world.pipeline(name)
    return found


def test_tables_that_are_followed_by_the_log_are_told_from_their_approval_on(
    followed: Any,
) -> None:
    assert sorted(told(followed)) == ["items", "orders"]
    assert {(t.load, t.finished_at, t.deferred) for t in told(followed).values()} == {
        ("", "", "")
    }
    change(followed, "orders", state="PROPOSED")
    change(followed, "items", state="PAUSED")
    assert sorted(told(followed)) == ["items"], "a paused one misses nothing"
    change(followed, "items", state="REMOVING")
    assert told(followed) == {}


def test_a_load_is_told_by_its_name_and_then_by_where_it_was_read(
    followed: Any,
) -> None:
    change(followed, "orders", state="SNAPSHOTTING", load_name="a")
    one = told(followed)["orders"]
    assert (one.load, one.finished_at) == ("a", "")
    change(followed, "orders", state="CATCHING_UP", bound="lsn:7:1:0/5")
    one = told(followed)["orders"]
    assert (one.load, one.finished_at) == ("a", "lsn:7:1:0/5")


def test_nothing_waits_for_a_table_that_only_a_load_brings_on_until_that_begins(
    followed: Any,
) -> None:
    row = change(followed, "orders", state="LIVE", load_name="a", bound="lsn:7:1:0/5")
    row.lake_table.is_queryable = True
    needed_resync.note_needed(row, why="its segments are gone")
    assert told(followed)["orders"].deferred == "its segments are gone"
    change(followed, "orders", state="RESYNCING", load_name="", bound="")
    assert told(followed)["orders"].deferred == "its segments are gone"
    change(followed, "orders", load_name="b")
    assert told(followed)["orders"].deferred == ""
    change(followed, "items", state="NEEDS_RESYNC", status_reason="the slot is lost")
    assert told(followed)["items"].deferred == "the slot is lost"


@pytest.mark.parametrize("kind", ["verify", "repair"])
def test_a_table_that_is_compared_awaits_where_its_log_is(
    followed: Any, kind: str
) -> None:
    table = followed.lake("orders").pk
    read, source = FollowedTables(), followed.source.pk
    assert not any(one.is_awaited for one in read.read([source])[source])
    Job.objects.create(
        kind=kind, subject="x", subject_id=str(table), lane="verify",
        state="RUNNING", payload={"table": table},
    )  # fmt: skip
    found = read.read([source])[source]
    assert [one.table.table_id for one in found if one.is_awaited] == [table]


def test_rows_that_were_not_written_since_are_not_read_again(
    followed: Any, django_assert_num_queries: Any
) -> None:
    read, source = FollowedTables(), followed.source.pk
    with django_assert_num_queries(5):  # versions, policies, signatures, plans, jobs
        before = read.read([source])[source]
    with django_assert_num_queries(3):
        assert read.read([source])[source] == before
    change(followed, "orders", position="lsn:7:1:0/9")
    with django_assert_num_queries(4):  # written, and the same
        assert read.read([source])[source] == before
    change(followed, "orders", load_name="again")
    with django_assert_num_queries(5):
        after = read.read([source])[source]
    is_same = [one is old for one, old in zip(after, before, strict=True)]
    assert sorted(is_same) == [False, True]
    assert {one.load for one in after} >= {"again"}


def test_a_plan_that_cannot_be_read_stops_no_other_table(followed: Any) -> None:
    read, source = FollowedTables(), followed.source.pk
    before = read.read([source])[source]
    change(followed, "items", plan={"steps": "?"}, state="LIVE")
    found = told(followed)
    assert not found["orders"].is_unread
    items = found["items"]
    assert items.is_unread
    assert items.deferred.startswith("the plan of lake.shop.items cannot be read")
    # what the follower knows of it serves on
    assert read.read([source])[source] == before
    # where none can be read the fault is not of one table: none is given up
    change(followed, "orders", plan={"steps": "?"})
    with pytest.raises(TerminalError, match="no plan"):
        follow_spec(followed.source, writer="w")


def test_a_stream_begins_above_every_epoch_of_its_tables(followed: Any) -> None:
    assert follow_spec(followed.source, writer="w").above == 0
    lake = followed.lake("other")
    lake.last_commit_epoch = 7
    lake.save()
    assert follow_spec(followed.source, writer="w").above == 7


def test_names_at_a_source_are_of_one_lake_and_one_source(
    followed: Any, settings: Any, tmp_path: Any
) -> None:
    spec = follow_spec(followed.source, writer="w")
    again = follow_spec(followed.source, writer="v")
    assert spec.slot == spec.publication == again.slot
    assert spec.stream == f"source{followed.source.pk}"
    assert len(spec.tables) == 2
    other = follow_spec(make_source("other"), writer="w")
    settings.SLUICE_LAKE_URI = str(tmp_path / "another")
    moved = follow_spec(followed.source, writer="w")
    assert len({spec.slot, other.slot, moved.slot}) == 3
    assert all(len(name) <= 63 for name in (spec.slot, other.slot))
