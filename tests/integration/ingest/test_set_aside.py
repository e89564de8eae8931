"""Columns that changed at the source are set aside instead of followed."""

from __future__ import annotations

from typing import Any

import pytest

from core.errors import InvalidRequest
from core.models import Job
from ingest.actions import registry
from ingest.models import Pipeline
from ingest.pipelines.log_tables import followed_tables
from ingest.pipelines.policies.store import change_table_policy
from ingest.pipelines.schema_approval import (
    approve_schema_change,
    proposal_of,
    what_happens,
)
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.integration.ingest.test_log_columns import logged, note_log
from tests.integration.ingest.test_schema_drift import (
    INT,
    PROMISE,
    TEXT,
    alter,
    columns_of,
    live,
    sync,
)

__all__ = ["live", "logged"]
pytestmark = pytest.mark.django_db


def loads() -> int:
    return Job.objects.filter(kind__in=["resync", "snapshot"]).count()


@pytest.fixture
def noted(live: Any) -> Any:
    """`orders` has a column `note` in the lake."""
    alter(live, note=TEXT)
    sync(live, added=PROMISE)
    return live


def test_a_column_that_is_gone_stays_in_the_lake_without_a_load(noted: Any) -> None:
    lake, before = alter(noted, note=None), loads()
    assert noted.pipeline("orders").state == "PAUSED"
    assert proposal_of(lake).choices == {"note": "keep_null"}
    told = what_happens(lake, keep_null=["note"])
    assert "note stays in the lake table with its values" in told[0]
    assert told[-1] == "Nothing is read again"
    assert approve_schema_change(lake, actor="ann", keep_null=["note"]).kind == "sync"
    spec = sync(noted)
    assert [c.name for c in spec.table.columns] == ["id", "name", "updated_at"]
    assert [(c.name, c.type) for c in spec.table.kept] == [("note", "string")]
    assert columns_of(noted.lake("orders")) == ["id", "name", "updated_at", "note"]
    assert (loads(), noted.pipeline("orders").drift) == (before, {})
    proposal = proposal_of(lake)
    assert (proposal.changes, proposal.kept) == ((), ("note",))


@pytest.mark.parametrize("is_told", [True, False])
def test_a_log_goes_on_over_a_column_that_is_kept(
    logged: Any, *, is_told: bool
) -> None:
    note_log(logged, tells_dropped=is_told)
    alter(logged, note=TEXT)
    lake, before = alter(logged, note=None), loads()
    assert logged.pipeline("orders").state == "PAUSED"
    told = what_happens(lake, keep_null=["note"])
    assert (told[-1] == "What waits of the source's log is applied with it") == is_told
    job = approve_schema_change(lake, actor="ann", keep_null=["note"])
    (one,) = followed_tables(logged.source)
    assert [c.name for c in one.table.kept] == ["note"]
    assert (job.kind != "resync") == is_told
    assert loads() - before == (not is_told)
    if is_told:
        assert (one.deferred, logged.pipeline("orders").drift) == ("", {})
        assert logged.pipeline("orders").state in {"CATCHING_UP", "LIVE"}


def test_what_a_reader_stopped_at_needs_a_load(logged: Any) -> None:
    note_log(logged, tells_dropped=True)
    alter(logged, note=TEXT)
    lake = alter(logged, note=None)
    Pipeline.objects.update(state="NEEDS_RESYNC")
    told = what_happens(lake, keep_null=["note"])
    assert any("read from the source again" in line for line in told)
    job = approve_schema_change(lake, actor="ann", keep_null=["note"])
    assert job.kind == "resync"


def test_one_that_comes_back_is_proposed_and_loaded(noted: Any) -> None:
    """Rows that nobody changed since have its former values in the lake."""
    lake = alter(noted, note=None)
    approve_schema_change(lake, actor="ann", keep_null=["note"])
    sync(noted)
    alter(noted, note=INT)
    proposal = proposal_of(lake)
    assert (noted.pipeline("orders").state, proposal.needs_resync) == ("LIVE", True)
    assert proposal.choices == {"note": "leave_out"}
    assert approve_schema_change(lake, actor="ann").kind == "resync"
    noted.until_live("orders")
    spec = sync(noted)
    assert [c.type for c in spec.table.columns if c.name == "note"] == ["int"]
    assert spec.table.kept == ()


def test_a_new_column_is_left_out(live: Any) -> None:
    change_table_policy(live.pipeline("orders"), {"schema_changes": "ask"})
    lake, before = alter(live, note=TEXT), loads()
    assert approve_schema_change(lake, actor="ann", leave_out=["note"]).kind == "sync"
    spec = sync(live)
    assert "note" not in {c.name for c in spec.table.columns}
    assert "note" in spec.sync.known
    proposal = proposal_of(lake)
    assert (proposal.changes, proposal.left_out, loads()) == ((), ("note",), before)
    # whatever becomes of it
    alter(live, note=INT)
    assert not proposal_of(lake).changes
    assert live.pipeline("orders").state == "LIVE"


def test_a_column_of_another_type_is_not_read_any_more(noted: Any) -> None:
    lake, before = alter(noted, note=("xml", "")), loads()
    assert proposal_of(lake).choices == {"note": "leave_out"}
    approve_schema_change(lake, actor="ann", leave_out=["note"])
    spec = sync(noted)
    assert [c.type for c in spec.table.kept] == ["string"]
    assert (loads(), noted.pipeline("orders").state) == (before, "LIVE")


def test_what_is_followed_beside_it_decides_about_a_load(noted: Any) -> None:
    alter(noted, note=None, name=INT)
    lake = noted.lake("orders")
    told = what_happens(lake, keep_null=["note"])
    assert any("note stays in the lake table, without" in line for line in told)
    job = approve_schema_change(lake, actor="ann", keep_null=["note"])
    assert job.kind == "resync"


def test_keys_and_what_is_not_open_cannot_be_set_aside(noted: Any) -> None:
    lake = alter(noted, note=None, id=("numeric(20,0)", "decimal(20,0)"))
    assert set(proposal_of(lake).choices) == {"note"}
    lake = alter(noted, id=("bigint", "bigint"))
    for choice in ({"keep_null": ["id"]}, {"leave_out": ["note"]}):
        with pytest.raises(InvalidRequest) as refused:
            approve_schema_change(lake, actor="ann", **choice)
        assert refused.value.code == "choice_not_offered"
    assert noted.pipeline("orders").state == "PAUSED"


def test_a_former_change_of_another_column_still_needs_a_load(noted: Any) -> None:
    alter(noted, name=("varchar(1)", "string"))
    alter(noted, name=("text", "string"), note=None)
    lake = noted.lake("orders")
    preview = registry.preview(
        registry.ACTIONS["approve-schema-change"], lake, {"keep_null": ["note"]}
    )
    assert preview is not None
    assert any("read from the source again" in line for line in preview.will)


def test_with_a_log_a_new_column_is_left_out_and_rows_go_on(logged: Any) -> None:
    change_table_policy(logged.pipeline("orders"), {"schema_changes": "ask"})
    note_log(logged)
    lake, before = alter(logged, note=TEXT), loads()
    approve_schema_change(lake, actor="ann", leave_out=["note"])
    (one,) = followed_tables(logged.source)
    assert (one.table.left_out, one.deferred) == (("note",), "")
    assert (loads(), logged.pipeline("orders").state) == (before, "LIVE")


def test_with_a_log_one_that_is_gone_needs_a_load_all_the_same(logged: Any) -> None:
    """Its reader stopped at the first row without it."""
    note_log(logged)
    alter(logged, note=TEXT)
    lake = alter(logged, note=None)
    job = approve_schema_change(lake, actor="ann", keep_null=["note"])
    assert job.kind == "resync"
    (one,) = followed_tables(logged.source)
    assert [c.name for c in one.table.kept] == ["note"]


def test_several_tables_are_approved_each_by_itself(noted: Any, admin: Any) -> None:
    lake = alter(noted, note=None)

    def rest(*asked: Any) -> Any:
        return admin(*asked).json()

    (one,) = rest("GET", "schema-changes")["items"]
    assert (one["table"], one["choices"]) == (lake.pk, {"note": "keep_null"})
    asked = {"tables": [lake.pk], "keep_null": True}
    for error in (None, "nothing_to_approve"):
        (done,) = rest("POST", "schema-changes:approve", asked)["items"]
        assert (done["error"] or {}).get("code") == error
        assert (done["job"] is None) == (error is not None)
    assert rest("GET", "schema-changes")["items"] == []
