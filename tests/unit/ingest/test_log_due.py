"""Whether what waits of a table in its stream may be applied to what the lake has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from core.errors import TerminalError, TransientError
from ingest.contract.job import SnapshotWork
from ingest.contract.table import ColumnSpec
from ingest.driver.apply.apply import refuse_other_types
from ingest.driver.apply.log_apply import LogTable
from ingest.driver.apply.replacement import same_span
from ingest.driver.capture.snapshot import _behind
from ingest.lake.commits import Commit, LakeState
from ingest.lake.hudi.options import CommitPosition, LoadPoint
from ingest.lake.hudi.timeline import Timeline
from tests.unit.ingest.test_agreement import at, spec
from tests.unit.ingest.test_log_read import SPEC, TABLE, Log, place

CURSOR = "2026-01-02T00:00:00.000000Z"


def standing(lake: Path, start: str, end: str, number: int) -> LogTable:
    position = at(number).position
    assert isinstance(position, CommitPosition)
    moved = msgspec.structs.replace(position, start=start, end=end)
    state = LakeState(True, position=moved)
    job = replace(spec(str(lake)), table=SPEC)
    return LogTable(cast("Any", None), job, lake / "scratch", state)


def test_nothing_is_passed_over_behind_a_sync_by_a_cursor(tmp_path: Path) -> None:
    """It has the number of a segment that was never applied: the driver died before it
    said that the table has left its log."""
    log = Log(tmp_path)
    log.cut(TABLE, load="a")
    log.finish(TABLE)
    last = log.close(TABLE).number
    for _ in range(2):
        log.close(TABLE)
    assert standing(tmp_path, place(1), place(3), last).is_due(log.stream)
    assert standing(tmp_path, "", CURSOR, last).is_due(log.stream), "a load"
    with pytest.raises(TransientError) as refused:
        standing(tmp_path, CURSOR, CURSOR, last + 1).is_due(log.stream)
    assert refused.value.code == "left_log"
    # one that a restore brought back is behind its load
    with pytest.raises(TerminalError, match="later rows of it are missing"):
        standing(tmp_path, CURSOR, CURSOR, 1).is_due(log.stream)


def test_a_column_that_is_kept_has_the_type_of_the_lake() -> None:
    """A resync that was to make it a text was cancelled, and then it was set aside."""
    timeline = Timeline.of(["20260101000000000_20260101000000001.deltacommit"])
    schema = '{"fields": [{"name": "v", "type": ["null", "int"]}]}'
    state = at(30)
    commit = Commit(timeline.completed_writes[0], "UPSERT", state.position, schema)
    state = replace(state, timeline=timeline, commits=(commit,))
    job = spec("lake")
    for type, is_refused in (("int", False), ("bigint", False), ("string", True)):
        kept = (ColumnSpec("v", "v", type, type),)
        now = replace(job, table=replace(job.table, kept=kept))
        if not is_refused:
            refuse_other_types(now, state)
            continue
        with pytest.raises(TerminalError) as refused:
            refuse_other_types(now, state)
        assert refused.value.code == "lake_types_differ"


def test_rows_behind_a_cursor_are_read_from_where_it_is_known_to_be() -> None:
    """The table had left its log without a commit: no row had changed."""
    column = ColumnSpec("at", "at", "timestamp with time zone", "timestamp")
    job = spec("lake")
    job = replace(
        job,
        table=replace(job.table, columns=(column,)),
        snapshot=SnapshotWork(behind="at", position=CURSOR),
    )
    for end in (place(3), CURSOR):
        moved = msgspec.structs.replace(at(30).position, end=end)
        assert "2026-01-02" in _behind(job, LakeState(True, position=moved))


def test_rows_that_are_written_anew_are_those_of_their_load() -> None:
    """Segments of before its moment would bring back what it has newer, or not at all."""
    load = LoadPoint(place(9), "1:2:")
    position = msgspec.structs.replace(at(30).position, load=load, load_name="a")
    span = same_span(position)
    assert (span.load, span.load_name, span.epoch_to) == (load, "", 30)
