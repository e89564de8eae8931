"""Epochs of lake and database agree, or nothing is read."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from core.errors import TerminalError
from ingest.contract.job import JobSpec, SyncWork
from ingest.contract.table import FenceSpec, SourceSpec, TableSpec
from ingest.driver.apply.apply import position_of, refuse_gone_back, unreported_commit
from ingest.lake.commits import Commit, LakeState
from ingest.lake.hudi.identity import TableIdentity
from ingest.lake.hudi.options import CommitPosition
from ingest.lake.hudi.timeline import Timeline

EPOCH = 30


def spec(lake: str) -> JobSpec:
    table = TableSpec(1, "public", "o", "shop", "o", f"{lake}/o", f"{lake}/s", (), ())
    source = SourceSpec(7, "postgresql", "h", 1, "d", "u", "datasource:7")
    return JobSpec(
        "me", 1, "sync", "apply", lake, table, FenceSpec("f", 1), source=source
    )


def at(epoch: int, *, source: int = 7) -> LakeState:
    identity = TableIdentity(("id",), 2)
    position = CommitPosition(source, "", "p", epoch, epoch, "other", 1, identity)
    return LakeState(exists=True, position=position)


@pytest.mark.parametrize(
    ("state", "is_back"),
    [
        (at(EPOCH), False),
        (at(EPOCH + 5), False),
        (at(EPOCH - 1), True),
        (at(EPOCH + 5, source=8), True),
        (LakeState(exists=True), True),
    ],
)
def test_an_older_table_is_refused_however_new_its_compaction_is(
    state: LakeState, is_back: bool
) -> None:
    names = ["20260101000000000_20260101000000001.deltacommit"]
    names.append("20990101000000000_20990101000000001.commit")
    names.append("20990101000000000.compaction.requested")
    state = replace(state, timeline=Timeline.of(names))
    known = replace(spec("lake"), sync=SyncWork("p", 0, behind=EPOCH))
    # a database that does not know where the table was
    refuse_gone_back(replace(known, sync=SyncWork("p", 0)), state)
    if not is_back:
        refuse_gone_back(known, state)
        return
    with pytest.raises(TerminalError, match=f"was at epoch {EPOCH}") as caught:
        refuse_gone_back(known, state)
    assert caught.value.code == "lake_went_back"


@pytest.mark.parametrize(
    ("state", "low", "begins"),
    [
        (at(EPOCH), "a", "p"),
        # syncs that found nothing went on without a commit
        (at(EPOCH), "q", "q"),
        (at(EPOCH), None, None),
        (at(EPOCH, source=8), "a", "a"),
        (LakeState(exists=True), "a", "a"),
        (LakeState(exists=True), None, None),
    ],
)
def test_a_sync_goes_on_where_the_lake_is(
    state: LakeState, low: str | None, begins: str | None
) -> None:
    """Whose database is from a backup, or whose last report was lost."""
    moments = {"a": "2026-01-01", "p": "2026-01-02", "q": "2026-01-03"}
    if state.position:
        position = msgspec.structs.replace(state.position, end=moments["p"])
        state = replace(state, position=position)
    known = replace(spec("lake"), sync=SyncWork(moments.get(low or ""), 0))
    assert position_of(known, state) == moments.get(begins or "")


@pytest.mark.parametrize(("behind", "is_told"), [(0, 0), (EPOCH, 0), (EPOCH - 1, 1)])
def test_a_commit_that_nobody_was_told_of_is_reported(
    behind: int, is_told: bool
) -> None:
    instant = Timeline.of(["20260101000000000_20260101000000001.deltacommit"])
    state = at(EPOCH)
    commit = Commit(instant.completed_writes[0], "UPSERT", state.position)
    state = replace(state, timeline=instant, commits=(commit,))
    known = replace(spec("lake"), sync=SyncWork("p", 0, behind=behind))
    assert unreported_commit(known, state) == (commit if is_told else None)
