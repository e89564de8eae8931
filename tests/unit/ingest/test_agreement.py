"""Epochs of lake and database agree, or nothing is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from core.errors import TerminalError
from ingest.contract.epochs import LedgerLine, Seal
from ingest.contract.job import JobSpec, SyncWork
from ingest.contract.table import FenceSpec, SourceSpec, TableSpec
from ingest.driver.apply.preconditions import refuse_gone_back, refuse_used_epoch
from ingest.lake.commits import LakeState
from ingest.lake.epochs import seals_of, write_seal
from ingest.lake.hudi.identity import TableIdentity
from ingest.lake.hudi.position import CommitPosition
from ingest.lake.hudi.timeline import Timeline
from ingest.lake.ledger import write_line

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


def seal(job: str, table: str = "1") -> Seal:
    return Seal(7, EPOCH, "a", "b", (), {table: 1}, job)


@pytest.mark.parametrize(
    ("state", "seals", "ledger", "is_used"),
    [
        (LakeState(exists=True), [], [], False),
        (at(EPOCH - 1), [], [EPOCH - 1, EPOCH + 1], False),
        (at(EPOCH), [], [], True),
        (at(EPOCH + 5), [], [], True),
        (at(EPOCH + 5, source=8), [], [], False),
        (at(1), [], [EPOCH], True),
        (at(1), [seal("other")], [], True),
        (at(1), [seal("other", "2")], [], True),
        # what a former attempt of this job left is its own
        (at(1), [seal("me")], [], False),
        (at(EPOCH), [seal("me")], [EPOCH], False),
        (at(1), [seal("me"), seal("other", "2")], [], False),
    ],
)
def test_an_epoch_that_the_lake_knows_is_refused(
    tmp_path: Path,
    state: LakeState,
    seals: list[Seal],
    ledger: list[int],
    is_used: bool,
) -> None:
    lake = str(tmp_path)
    for one in seals:
        write_seal(lake, one)
    for epoch in ledger:
        write_line(lake, 7, epoch, 2, LedgerLine("committed", "i"))
    found = seals_of(lake, 7, EPOCH)
    assert len(found) == len(seals)
    if not is_used:
        refuse_used_epoch(spec(lake), state, EPOCH, found)
        return
    with pytest.raises(TerminalError, match=f"epoch {EPOCH} was given") as caught:
        refuse_used_epoch(spec(lake), state, EPOCH, found)
    assert caught.value.code == "lake_went_ahead"


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
    known = replace(spec("lake"), sync=SyncWork("p", 0, EPOCH + 9, behind=EPOCH))
    # a database that does not know where the table was
    refuse_gone_back(replace(known, sync=SyncWork("p", 0, EPOCH + 9)), state)
    if not is_back:
        refuse_gone_back(known, state)
        return
    with pytest.raises(TerminalError, match=f"was at epoch {EPOCH}") as caught:
        refuse_gone_back(known, state)
    assert caught.value.code == "lake_went_back"
