"""Columns that change at the source: followed, asked about, left out; nothing lost."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from typing import Any

import pytest

from catalog.discovery.services import LOOK
from catalog.models import Column, SchemaVersion, Table
from core.errors import InvalidRequest
from core.models import Job
from ingest.alerts import triggers
from ingest.lake.commits import Commit, LakeState
from ingest.lake.hudi.identity import TableIdentity
from ingest.lake.hudi.options import CommitPosition
from ingest.lake.hudi.timeline import Instant
from ingest.models import Pipeline
from ingest.models.alerts import Alert
from ingest.pipelines import schema_diff, schema_drift, table_commands
from ingest.pipelines.policies.store import change_policy, change_table_policy
from ingest.pipelines.schema_approval import approve_schema_change, proposal_of
from ingest.pipelines.table_job import unread_columns


def alter(world: Any, **columns: tuple[str, str] | None) -> Table:
    """What a discovery finds at the source: (type there, type in the lake) of new and
    changed columns, None for one that is gone. Tells who listens, as a discovery does.
    """
    source = world.pipeline("orders").source_table
    rows = Column.objects.filter(table=source)
    for name, types in columns.items():
        if types is None:
            rows.filter(name=name).delete()
            continue
        found = {"source_type": types[0], "type": types[1]}
        if not rows.filter(name=name).update(**found):
            last = rows.order_by("-position").values_list("position", flat=True)[0]
            names = {"name": name, "source_name": name, "position": last + 1}
            Column.objects.create(table=source, **names, **found)
    mark = uuid.uuid4().hex
    Table.objects.filter(pk=source.pk).update(schema_fingerprint=mark)
    tables = Table.objects.filter(pk=source.pk)
    schema_drift.sources_altered(tables)
    schema_diff.report_altered(tables)
    return world.lake("orders")


@pytest.fixture
def live(world: Any) -> Any:
    world.live("orders")
    return world


def columns_of(table: Table) -> list[str]:
    return list(table.columns.values_list("name", flat=True))


def sync(world: Any, **facts: Any) -> Any:
    """A sync's spec; the fake reports `facts` beside its own."""
    world.launcher.facts["sync"] = facts
    table_commands.start_sync(world.lake("orders"), actor="ann")
    world.until(lambda: all(j.is_finished for j in world.jobs("sync")))
    return [s for s in world.launcher.submitted if s.kind == "sync"][-1]


def meet(world: Any, *errors: str) -> None:
    """The next attempts of a sync end with these errors; the first asks for a look."""
    world.launcher.errors["sync"] = list(errors)
    table_commands.start_sync(world.lake("orders"), actor="ann")
    world.until(lambda: Job.objects.filter(kind=LOOK).exists())


def until_retried(world: Any, state: str) -> None:
    """The look fails; the sync waits no longer and ends like this."""
    Job.objects.filter(kind=LOOK).update(state="FAILED")
    Job.objects.filter(kind="sync").update(not_before=None)
    world.until(lambda: world.jobs("sync")[-1].state == state)


TEXT, INT, BIGINT = ("text", "string"), ("integer", "int"), ("bigint", "bigint")
PROMISE = {"columns": ["note"], "earlier": "none", "from": "2026-01-01T00:00:00Z"}


def open_alerts() -> list[tuple[str, str]]:
    triggers.read_events()
    rows = Alert.objects.filter(closed_at=None)
    return list(rows.values_list("kind", "code"))


@pytest.mark.django_db
def test_an_added_column_comes_with_the_next_sync(live: Any) -> None:
    lake = alter(live, note=TEXT)
    version = lake.schema_version
    assert columns_of(lake) == ["id", "name", "updated_at"], "not before the commit"
    assert open_alerts() == []
    spec = sync(live, added=PROMISE)
    assert [c.name for c in spec.table.columns] == ["id", "name", "updated_at", "note"]
    assert spec.sync.added == ("note",)
    assert columns_of(lake) == ["id", "name", "updated_at", "note"]
    assert live.lake("orders").schema_version == version + 1
    newest = SchemaVersion.objects.filter(table=lake).latest("version")
    assert newest.columns[-1]["name"] == "note"
    # its older values were looked for once
    assert sync(live).sync.added == ()
    assert live.lake("orders").schema_version == version + 1


@pytest.mark.django_db
def test_a_sync_that_did_not_look_for_older_values_leaves_that_to_the_next(
    live: Any,
) -> None:
    """The replay of a sealed epoch, or a commit that the timeline alone tells of."""
    alter(live, note=TEXT)
    assert sync(live).sync.added == ("note",)
    assert sync(live, added=PROMISE).sync.added == ("note",)
    assert sync(live).sync.added == ()


@pytest.mark.django_db
def test_columns_of_a_commit_whose_report_is_lost_are_left_to_the_next_sync(
    live: Any,
) -> None:
    """Nobody had planned that this sync brings it: the lake lacked it, that is all."""
    alter(live, note=TEXT)
    sync(live, added=PROMISE)
    job = live.jobs("sync")[-1]
    narrow, wide = ("id", "name", "updated_at"), ("id", "name", "updated_at", "note")
    stranger = replace(commit_with(narrow), position=None)
    for before, brought in ((narrow, ["note"]), (wide, [])):
        commits = (commit_with(wide), stranger, commit_with(before))
        found = unread_columns(job, commits[0], LakeState(exists=True, commits=commits))
        assert found.get("added", {}).get("columns", []) == brought
    alone = LakeState(exists=True, commits=(commit_with(wide),))
    assert unread_columns(job, alone.commits[0], alone) == {}
    Pipeline.objects.update(drift={})
    unread = {**PROMISE, "earlier": "unread"}
    assert sync(live, added=unread).sync.added == ()
    assert sync(live, added=PROMISE).sync.added == ("note",)
    assert sync(live).sync.added == ()


def commit_with(names: tuple[str, ...]) -> Commit:
    fields = [{"name": name, "type": ["null", "string"]} for name in names]
    identity = TableIdentity(("id",), 1)
    position = CommitPosition(1, "a", "b", 1, 1, "job", 1, identity)
    instant = Instant("1", "deltacommit", "COMPLETED", "2")
    return Commit(instant, "upsert", position, json.dumps({"fields": fields}))


@pytest.mark.django_db
def test_a_commit_by_an_earlier_plan_shows_no_column(live: Any) -> None:
    """Its attempt was planned before the column was followed."""
    before = len(live.launcher.submitted)
    table_commands.start_sync(live.lake("orders"), actor="ann")
    live.until(lambda: len(live.launcher.submitted) > before)
    lake = alter(live, note=TEXT)
    live.until(lambda: all(j.is_finished for j in live.jobs("sync")))
    assert columns_of(lake) == ["id", "name", "updated_at"]
    assert sync(live, added=PROMISE).sync.added == ("note",)
    assert columns_of(lake)[-1] == "note"


@pytest.mark.django_db
@pytest.mark.parametrize("earlier", ["many", "unknown"])
def test_older_values_that_were_not_read_are_told_until_a_resync(
    live: Any, earlier: str
) -> None:
    lake = alter(live, note=TEXT)
    sync(live, added={**PROMISE, "earlier": earlier})
    told = proposal_of(lake)
    assert "column note counts from 2026-01-01T00:00:00Z" in told.partial_columns
    assert open_alerts() == [("schema_change", "earlier_values_missing")]
    live.launcher.facts["sync"] = {}
    table_commands.start_resync(lake, actor="ann")
    live.until(lambda: live.jobs("resync")[-1].state == "SUCCEEDED")
    live.until_live("orders")
    assert proposal_of(lake).partial_columns == ""
    live.steps(1)
    assert open_alerts() == []


@pytest.mark.django_db
def test_a_load_by_an_earlier_plan_does_not_settle_the_column(live: Any) -> None:
    lake = alter(live, note=TEXT)
    live.launcher.facts["resync"] = {"has_columns": False}
    table_commands.start_resync(lake, actor="ann")
    live.until(lambda: live.jobs("resync")[-1].state == "SUCCEEDED")
    assert columns_of(lake) == ["id", "name", "updated_at"]
    live.until_live("orders")
    last = [s for s in live.launcher.submitted if s.kind == "sync"][-1]
    assert last.sync.added == ("note",)


@pytest.mark.django_db
def test_a_restored_table_has_its_older_values_read_again(live: Any) -> None:
    from ingest.pipelines.lake_reconcile import note_restored
    from ingest.pipelines.transitions import pipeline_of

    lake = alter(live, note=TEXT)
    sync(live, added=PROMISE)
    pipeline = pipeline_of(lake.pk)
    assert pipeline is not None
    facts = {"restored": "1", "instant": "1", "position": {"to": pipeline.position}}
    note_restored(pipeline, facts)
    assert sync(live).sync.added == ("note",)


@pytest.mark.django_db
def test_what_a_driver_meets_first_is_looked_at_once(live: Any) -> None:
    """It ends before it reads; the look finds the column; the retry has it."""
    meet(live, "columns_added")
    (job,) = [j for j in live.jobs("sync") if not j.is_finished]
    first = [s for s in live.launcher.submitted if s.kind == "sync"][-1]
    assert first.sync.stops_at_new
    live.steps(5)
    job.refresh_from_db()
    assert job.state == "QUEUED"
    assert "read again" in job.reason
    alter(live, note=TEXT)
    Job.objects.filter(kind=LOOK).update(state="SUCCEEDED")
    Job.objects.filter(pk=job.pk).update(not_before=None)
    live.launcher.facts["sync"] = {"added": PROMISE}
    live.until(lambda: Job.objects.get(pk=job.pk).state == "SUCCEEDED")
    second = [s for s in live.launcher.submitted if s.kind == "sync"][-1]
    assert second.sync.added == ("note",)
    assert not second.sync.stops_at_new, "one look for each job: no way to turn round"


@pytest.mark.django_db
def test_a_look_that_fails_holds_nothing_up(live: Any) -> None:
    meet(live, "columns_added")
    until_retried(live, "SUCCEEDED")
    assert live.pipeline("orders").state == "LIVE"


@pytest.mark.django_db
def test_columns_that_no_discovery_sees_are_looked_for_once(live: Any) -> None:
    change_table_policy(live.pipeline("orders"), {"schema_changes": "ask"})
    sync(live, unknown_columns=["hidden"])
    assert Job.objects.filter(kind=LOOK).count() == 1
    change_table_policy(live.pipeline("orders"), {"schema_changes": "follow"})
    spec = sync(live)
    assert (spec.sync.known, spec.sync.added) == (("hidden",), ())
    assert Job.objects.filter(kind=LOOK).count() == 1
    alter(live, hidden=TEXT)
    assert sync(live, added={**PROMISE, "columns": ["hidden"]}).sync.added == (
        "hidden",
    )


@pytest.mark.django_db
def test_ask_goes_on_with_the_known_columns_until_somebody_approves(live: Any) -> None:
    change_table_policy(live.pipeline("orders"), {"schema_changes": "ask"})
    lake = alter(live, note=TEXT)
    assert open_alerts() == [("schema_change", "source_altered")]
    spec = sync(live)
    assert "note" not in [c.name for c in spec.table.columns]
    assert (spec.sync.known, spec.sync.stops_at_new) == (("note",), False)
    assert live.pipeline("orders").state == "LIVE"
    told = proposal_of(lake)
    assert told.changes == ("column 'note' (string) was added",)
    assert not told.needs_resync
    live.launcher.facts["sync"] = {"added": PROMISE}
    job = approve_schema_change(lake, actor="ann")
    assert job.kind == "sync"
    live.until(lambda: live.jobs("sync")[-1].state == "SUCCEEDED")
    assert columns_of(lake)[-1] == "note"
    assert open_alerts() == []
    with pytest.raises(InvalidRequest) as refused:
        approve_schema_change(lake, actor="ann")
    assert refused.value.code == "nothing_to_approve"


@pytest.mark.django_db
def test_ignore_leaves_new_columns_out_and_says_so(live: Any) -> None:
    change_policy(live.source, None, {"schema_changes": "ignore"})
    lake = alter(live, note=TEXT)
    spec = sync(live)
    assert "note" not in [c.name for c in spec.table.columns]
    assert proposal_of(lake).left_out == ("note",)
    assert (open_alerts(), live.pipeline("orders").state) == ([], "LIVE")
    # whoever thinks better of it gets the column with the next sync
    change_policy(live.source, None, {"schema_changes": None})
    assert sync(live).sync.added == ("note",)


@pytest.mark.django_db
def test_what_cannot_be_followed_pauses_until_it_is_approved(live: Any) -> None:
    lake = alter(live, name=INT, note=TEXT)
    pipeline = live.pipeline("orders")
    assert pipeline.state == "PAUSED"
    assert "waits for a decision: column 'name' changed" in pipeline.status_reason
    both = "column 'name' changed: string → int", "column 'note' (string) was added"
    said = "{}; followed already: {}".format(*both)
    assert pipeline.status_reason.endswith(f"waits for a decision: {said}")
    told = proposal_of(lake)
    assert told.changes == both
    assert open_alerts() == [("schema_change", "source_altered")]
    alert = Alert.objects.get(closed_at=None)
    assert alert.message.endswith(f"changed at the source: {said}")
    assert told.needs_resync
    assert any("read from the source again" in line for line in told.will)
    table_commands.resume(lake, actor="bob")
    live.until(lambda: live.pipeline("orders").state == "PAUSED")
    job = approve_schema_change(lake, actor="ann")
    assert job.kind == "resync"
    live.until(lambda: live.jobs("resync")[-1].state == "SUCCEEDED")
    live.until_live("orders")
    assert list(lake.columns.values_list("name", "type")) == [
        ("id", "bigint"),
        ("name", "int"),
        ("updated_at", "timestamp"),
        ("note", "string"),
    ]
    assert open_alerts() == []


@pytest.mark.django_db
def test_another_key_of_the_source_leaves_that_of_the_lake(live: Any) -> None:
    source = live.pipeline("orders").source_table
    Column.objects.filter(table=source, name="name").update(key=1)
    Column.objects.filter(table=source, name="id").update(key=2)
    lake = alter(live)
    assert "now (name, id)" in live.pipeline("orders").status_reason
    assert any("stays keyed by id:" in line for line in proposal_of(lake).will)


@pytest.mark.django_db
def test_a_key_that_is_guaranteed_no_more_is_looked_at_and_can_be_resynced(
    live: Any,
) -> None:
    """An index that was dropped is no change of a column that could be approved."""
    meet(live, "key_not_guaranteed", "key_not_guaranteed")
    until_retried(live, "FAILED")
    assert live.pipeline("orders").state == "FAILED"
    table_commands.start_resync(live.lake("orders"), actor="ann")
    live.until_live("orders")


@pytest.mark.django_db
def test_a_change_that_is_taken_back_lets_the_table_go_on(live: Any) -> None:
    alter(live, amount=INT)
    sync(live, added={**PROMISE, "columns": ["amount"]})
    change_table_policy(live.pipeline("orders"), {"schema_changes": "ask"})
    alter(live, note=TEXT)
    alter(live, note=None, amount=BIGINT)
    assert live.pipeline("orders").state == "PAUSED"
    alter(live, amount=INT)
    live.until_live("orders")
    live.steps(1)
    assert open_alerts() == []


@pytest.mark.django_db
def test_what_the_table_stands_on_is_refused_with_the_way_out(live: Any) -> None:
    lake = alter(live, updated_at=None)
    assert not proposal_of(lake).is_possible
    with pytest.raises(InvalidRequest) as refused:
        approve_schema_change(lake, actor="ann")
    assert refused.value.code == "cannot_take_over"
    assert "add it again" in refused.value.hint


@pytest.mark.django_db
def test_a_changed_type_that_a_driver_meets_first_pauses_the_table(live: Any) -> None:
    meet(live, "source_changed", "source_changed")
    until_retried(live, "FAILED")
    assert live.pipeline("orders").state == "PAUSED"


@pytest.mark.django_db
def test_a_wider_type_is_followed_in_place(live: Any) -> None:
    alter(live, amount=INT)
    sync(live, added={**PROMISE, "columns": ["amount"]})
    lake = alter(live, amount=BIGINT)
    spec = sync(live)
    assert (spec.table.columns[-1].type, spec.sync.added) == ("bigint", ())
    assert lake.columns.get(name="amount").type == "bigint"
    assert live.pipeline("orders").state == "LIVE"


@pytest.mark.django_db
def test_a_table_that_is_loaded_once_takes_columns_with_a_resync(world: Any) -> None:
    world.live("orders", capture="snapshot")
    lake = alter(world, note=TEXT)
    assert (world.pipeline("orders").state, proposal_of(lake).needs_resync) == (
        "LIVE",
        True,
    )
    approve_schema_change(lake, actor="ann")
    world.until(lambda: world.jobs("resync")[-1].state == "SUCCEEDED")
    assert columns_of(lake)[-1] == "note"
