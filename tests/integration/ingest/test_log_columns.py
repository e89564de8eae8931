"""Columns that change at the source of a table that follows its log: in order with its
rows where the log tells all, by a load that is announced where it does not."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from catalog.models import Table
from core.models import Job
from core.sentences import says
from ingest.contract.applying import (
    COLUMNS_UNDECIDED,
    Applied,
    ApplyProblem,
    columns_mark,
)
from ingest.contract.following import FollowedTable
from ingest.contract.job import ErrorFact
from ingest.contract.table import TableSpec
from ingest.followers_host.rows import look_at_columns
from ingest.models import Pipeline, SourceFollower
from ingest.pipelines.log_tables import followed_tables, stream_of
from ingest.pipelines.policies.store import change_table_policy
from ingest.pipelines.schema_approval import approve_schema_change, proposal_of
from ingest.pipelines.schema_drift import NOT_TOLD
from ingest.pipelines.table_commands import start_resync
from tests.integration.ingest.test_schema_drift import alter, columns_of

pytestmark = pytest.mark.django_db
FOLLOWS = {"step": "FollowLog", "seen": [], "missed": []}


@pytest.fixture
def logged(world: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`orders` is loaded and follows its source's log."""
    monkeypatch.setattr("ingest.pipelines.apply_reports.WRITE_SECONDS", 0.0)
    monkeypatch.setattr("ingest.pipelines.apply_reports.FOLLOWER_FIRST", timedelta(0))
    world.live("orders")
    plan = world.pipeline("orders").plan
    steps = [s if s["step"] != "ApplyChanges" else FOLLOWS for s in plan["steps"]]
    Pipeline.objects.update(capture="log", due_at=None, plan={**plan, "steps": steps})
    SourceFollower.objects.create(
        datasource=world.source, observed="following", heartbeat_at=Now()
    )
    return world


def note_log(world: Any, **facts: Any) -> None:
    source = world.pipeline("orders").source_table
    log = {"tells_older": True, "older": {}, "untold": [], **facts}
    Table.objects.filter(pk=source.pk).update(identity={**source.identity, "log": log})


def tell(lake: Any, *, names: tuple[str, ...] = (), **older: str | None) -> None:
    """As the host does with what the reader of the log says."""
    columns = (*older, *names)
    one = FollowedTable(lake.pk, "finished", new_columns=columns, older=older)
    assert look_at_columns([one]) == {lake.pk}


def spec(world: Any) -> TableSpec:
    (one,) = followed_tables(world.source)
    return one.table


def session(world: Any) -> Any:
    stream = stream_of(world.source.pk)
    world.until(lambda: world.launcher.sessions.get(stream))
    world.until(lambda: world.launcher.sessions[stream].tables)
    return world.launcher.sessions[stream]


def test_a_column_that_is_followed_is_shown_once_it_is_in_the_lake(logged: Any) -> None:
    note_log(logged, older={"note": "none"})
    lake = alter(logged, note=("text", "string"))
    planned = spec(logged)
    assert planned.columns[-1].source_name == "note"
    assert (planned.columns[-1].older, planned.left_out) == ("none", ())
    assert logged.pipeline("orders").state == "LIVE"
    assert not proposal_of(lake).changes
    columns = tuple((c.source_name, c.type) for c in planned.columns)
    heard = session(logged)
    heard.told.append(Applied(lake.pk, 7, "7", is_live=True))
    logged.steps(3)
    assert "note" not in columns_of(lake)
    heard.told.append(Applied(lake.pk, 8, "8", is_live=True, columns=columns))
    logged.until(lambda: "note" in columns_of(lake))
    assert spec(logged).schema_version == planned.schema_version + 1


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"older": {"note": "later"}}, "first"),
        ({"untold": ["note"]}, "first"),
        ({"older": {"note": "later"}}, None),
    ],
)
def test_what_the_log_tells_of_older_rows_counts(
    logged: Any, facts: dict[str, Any], told: str | None
) -> None:
    """The discovery came behind a statement that altered the default."""
    note_log(logged, **facts)
    lake = logged.lake("orders")
    tell(lake, note=told, other="5")
    alter(logged, note=("text", "string"))
    assert (spec(logged).columns[-1].name, spec(logged).columns[-1].older) == (
        "note",
        told,
    )
    assert not proposal_of(lake).changes
    # what is in the plan is noted no more, nor what only a load brings
    assert logged.pipeline("orders").drift.keys() == {"other"}
    change_table_policy(logged.pipeline("orders"), {"schema_changes": "ask"})
    alter(logged, other=("text", "string"))
    assert spec(logged).left_out == ("other",)
    assert logged.pipeline("orders").drift == {}


def test_rows_that_went_on_without_a_column_keep_its_change_open(logged: Any) -> None:
    """The policy lets it in later: its values of meanwhile are in no row."""
    note_log(logged, older={"note": "none"})
    change_table_policy(logged.pipeline("orders"), {"schema_changes": "ask"})
    lake = alter(logged, note=("text", "string"))
    assert spec(logged).left_out == ("note",)
    change_table_policy(logged.pipeline("orders"), {"schema_changes": "follow"})
    shown = proposal_of(lake)
    assert shown.changes == ("column 'note' (string) was added",)
    assert shown.needs_resync
    alter(logged, other=("text", "string"))
    assert [column.source_name for column in spec(logged).columns][-1] == "other"
    start_resync(lake, actor="ann")
    logged.until(lambda: {"note", "other"} <= set(columns_of(lake)))
    assert not proposal_of(lake).changes


@pytest.mark.parametrize(
    ("older", "value"), [({"note": "7"}, "7"), ({"note": None}, None), ({}, "later")]
)
def test_a_column_is_taken_once_the_log_was_read_to_it(
    logged: Any, older: dict[str, str | None], value: str | None
) -> None:
    """Its default may be another one by the time that a discovery sees it."""
    note_log(logged, older_by_log=True, older={"note": "later"})
    lake = logged.lake("orders")
    before = spec(logged)
    alter(logged, note=("text", "string"))
    # nor is it left out: rows that have it wait
    assert spec(logged) == before
    assert not proposal_of(lake).changes
    heard, waits = session(logged), waiting(logged)
    heard.problems.append(waits)
    logged.until(lambda: Job.objects.filter(kind="look").exists())
    looked()
    heard.problems.append(waits)
    logged.until(lambda: says(logged.pipeline("orders").status_reason, NOT_TOLD))
    assert logged.pipeline("orders").state == "LIVE"
    tell(lake, names=() if older else ("note",), **older)
    taken = spec(logged).columns[-1]
    assert (taken.source_name, taken.older) == ("note", value)
    assert logged.pipeline("orders").status_reason == ""
    assert logged.pipeline("orders").drift == {}


def test_a_load_takes_a_column_that_the_log_has_not_brought(logged: Any) -> None:
    note_log(logged, older_by_log=True)
    alter(logged, note=("text", "string"))
    assert [c.source_name for c in spec(logged).columns][-1] != "note"
    start_resync(logged.lake("orders"), actor="ann")
    logged.until(lambda: logged.pipeline("orders").state == "RESYNCING")
    logged.until(lambda: spec(logged).columns[-1].source_name == "note")


@pytest.mark.parametrize(
    ("policy", "facts"), [("ask", {}), ("follow", {"untold": ["note"]})]
)
def test_a_column_that_waits_for_a_decision_holds_up_no_row(
    logged: Any, policy: str, facts: dict[str, Any]
) -> None:
    lake = logged.lake("orders")
    change_table_policy(logged.pipeline("orders"), {"schema_changes": policy})
    note_log(logged, **facts)
    alter(logged, note=("text", "string"))
    assert spec(logged).left_out == ("note",)
    assert logged.pipeline("orders").state == "LIVE"
    proposal = proposal_of(lake)
    assert (len(proposal.changes), proposal.needs_resync) == (1, True)
    assert approve_schema_change(lake, actor="ann").kind == "resync"
    assert (spec(logged).left_out, spec(logged).columns[-1].name) == ((), "note")


def test_a_wider_type_is_approved_without_a_load(logged: Any) -> None:
    lake = logged.lake("orders")
    note_log(logged)
    alter(logged, amount=("integer", "int"))
    change_table_policy(logged.pipeline("orders"), {"schema_changes": "ask"})
    alter(logged, amount=("bigint", "bigint"))
    assert logged.pipeline("orders").state == "PAUSED"
    assert spec(logged).columns[-1].type == "int"
    proposal = proposal_of(lake)
    assert (len(proposal.will), proposal.needs_resync) == (2, False)
    loads = Job.objects.filter(kind__in=["resync", "snapshot"]).count()
    approve_schema_change(lake, actor="ann")
    assert logged.pipeline("orders").state in {"CATCHING_UP", "LIVE"}
    assert spec(logged).columns[-1].type == "bigint"
    assert Job.objects.filter(kind__in=["resync", "snapshot"]).count() == loads


def test_a_column_that_is_gone_pauses_the_table(logged: Any) -> None:
    note_log(logged)
    lake = alter(logged, note=("text", "string"))
    alter(logged, note=None)
    assert logged.pipeline("orders").state == "PAUSED"
    assert proposal_of(lake).needs_resync
    assert approve_schema_change(lake, actor="ann").kind == "resync"
    assert "note" not in {column.name for column in spec(logged).columns}


def waiting(logged: Any, name: str = "note") -> ApplyProblem:
    """Rows have a column that the plan of now has not."""
    error = ErrorFact(COLUMNS_UNDECIDED, f"{name} of db.orders was added", "wait")
    plan = columns_mark(spec(logged))
    return ApplyProblem(logged.lake("orders").pk, "transient", error, plan)


def looked(**at: Any) -> None:
    Job.objects.filter(kind="look").update(state="SUCCEEDED", finished_at=Now(), **at)


def test_the_follower_is_heard_before_a_session_asks_for_a_look(
    logged: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks for one itself, behind what its log tells of older rows."""
    later = timedelta(days=1)
    monkeypatch.setattr("ingest.pipelines.apply_reports.FOLLOWER_FIRST", later)
    heard, lake = session(logged), logged.lake("orders")
    for _ in range(3):
        heard.problems.append(waiting(logged))
        logged.steps(3)
    assert not Job.objects.filter(kind="look").exists()
    monkeypatch.setattr("ingest.pipelines.apply_reports.FOLLOWER_FIRST", timedelta(0))
    heard.problems.append(waiting(logged))
    logged.until(lambda: Job.objects.filter(kind="look").exists())
    assert lake.pk


def test_what_came_and_went_before_it_was_seen_needs_a_load(logged: Any) -> None:
    heard, waits = session(logged), waiting(logged)
    heard.problems.append(waits)
    looks = Job.objects.filter(kind="look")
    logged.until(lambda: looks.count() == 1)
    assert "its columns are read" in logged.pipeline("orders").status_reason
    heard.problems.append(waits)
    logged.steps(3)
    assert (looks.count(), logged.pipeline("orders").state) == (1, "LIVE")
    # one that began before the rows came may not have seen what they have
    looked(created_at=Now() - timedelta(minutes=1))
    heard.problems.append(waits)
    logged.until(lambda: looks.count() == 2)
    assert logged.pipeline("orders").state == "LIVE"
    looked()
    heard.problems.append(waits)
    logged.until(lambda: logged.pipeline("orders").state == "NEEDS_RESYNC")


def test_what_some_shards_have_is_waited_for_until_all_have_it(
    logged: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.pipelines.shards.are_unlike", lambda _: True)
    heard, waits = session(logged), waiting(logged)
    looks = Job.objects.filter(kind="look")
    heard.problems.append(waits)
    logged.until(lambda: looks.count() == 1)
    looked()
    heard.problems.append(waits)
    logged.until(lambda: "not all of" in logged.pipeline("orders").status_reason)
    logged.steps(3)
    assert (looks.count(), logged.pipeline("orders").state) == (1, "LIVE")
    Job.objects.filter(kind="look").update(finished_at=Now() - timedelta(minutes=2))
    heard.problems.append(waits)
    logged.until(lambda: looks.count() == 2)
    looked()
    monkeypatch.setattr("ingest.pipelines.shards.are_unlike", lambda _: False)
    heard.problems.append(waits)
    logged.until(lambda: logged.pipeline("orders").state == "NEEDS_RESYNC")


def test_each_column_that_rows_wait_for_is_looked_for(logged: Any) -> None:
    """What was found of the one before says nothing of the next; and a session that
    has an older plan waits for none that is there."""
    note_log(logged, older={"note": "none", "more": "none"})
    heard, waits = session(logged), waiting(logged)
    heard.problems.append(waits)
    looks = Job.objects.filter(kind="look")
    logged.until(lambda: looks.count() == 1)
    assert "its columns are read" in logged.pipeline("orders").status_reason
    alter(logged, note=("text", "string"))
    assert not logged.pipeline("orders").status_reason
    looked(created_at=Now())
    heard.problems.append(waits)
    logged.steps(3)
    assert (looks.count(), logged.pipeline("orders").state) == (1, "LIVE")
    heard.problems.append(waiting(logged, "more"))
    logged.until(lambda: looks.count() == 2)
    assert logged.pipeline("orders").state == "LIVE"


def test_columns_that_somebody_else_found_are_not_looked_for_again(logged: Any) -> None:
    """As the reader of the log does; who applies has the plan from before for a while,
    and what it says of that would stay on a table that waits for nothing."""
    note_log(logged, older={"note": "none"})
    heard, waits = session(logged), waiting(logged)
    alter(logged, note=("text", "string"))
    heard.problems.append(waits)
    logged.until(lambda: not heard.problems)
    logged.steps(3)
    assert not Job.objects.filter(kind="look").exists()
    assert not logged.pipeline("orders").status_reason


def test_a_table_that_went_on_says_nothing_of_what_it_waited_for(logged: Any) -> None:
    heard, waits, lake = session(logged), waiting(logged), logged.lake("orders")
    heard.told.append(Applied(lake.pk, 6, "6", is_live=True))
    logged.until(lambda: logged.pipeline("orders").position == "6")
    heard.problems.append(waits)
    logged.until(lambda: logged.pipeline("orders").status_reason)
    heard.told.append(Applied(lake.pk, 7, "7", is_live=True, waiting=1))
    logged.steps(3)
    assert "its columns are read" in logged.pipeline("orders").status_reason
    heard.told.append(Applied(lake.pk, 8, "8", is_live=True))
    logged.until(lambda: not logged.pipeline("orders").status_reason)
