"""Moments of a real table that are kept and gone back to: rows and position together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ingest.driver.apply import apply
from ingest.driver.table_services import savepoints
from ingest.lake.hudi import timeline
from ingest.lake.layout import read_begun_restore
from tests.spark.lake_bench import LakeBench, assert_done
from tests.spark.test_maintenance import ROWS, change, loaded, seen, wanted
from tests.spark.test_repair import asked_of, deaths_around, mend, timeline_of

__all__ = ["loaded"]


def keep(bench: LakeBench, table: Any) -> str:
    return str(assert_done(mend(bench, table, "savepoint")).facts["savepoint"])


def follow(bench: LakeBench, table: Any, value: str, **k: Any) -> Any:
    """Rows change, and a sync brings them from where the table is."""
    position = bench.state(table).position
    assert position is not None
    return change(bench, table, position.end, value, **k)


def test_a_restore_past_a_newer_savepoint_ends_that_one(
    loaded: Any, monkeypatch: Any
) -> None:
    bench, table, low = loaded
    change(bench, table, low, "one", compact_after=9)
    then, kept = seen(bench, table), keep(bench, table)
    follow(bench, table, "two", compact_after=9)
    newer = keep(bench, table)
    follow(bench, table, "three", compact_after=9)
    assert bench.state(table).timeline.savepoints.keys() == {kept, newer}

    for death in deaths_around(savepoints, "_end_newer"):
        with monkeypatch.context() as patch:
            patch.setattr(savepoints, "_end_newer", death)
            with pytest.raises(KeyboardInterrupt):
                mend(bench, table, "restore", kept)
    # as it is when its driver was killed while it ended that one
    (timeline_of(table) / f"{newer}.savepoint.inflight").touch()
    done = assert_done(mend(bench, table, "restore", kept)).facts
    assert len(done["taken_away"]) == 2
    assert not list(timeline_of(table).glob(f"{newer}*"))
    assert bench.state(table).timeline.savepoints.keys() == {kept}
    assert seen(bench, table) == then
    assert_done(mend(bench, table, "clean"))
    assert seen(bench, table) == then
    follow(bench, table, "four", compact_after=9)
    assert seen(bench, table) == wanted(bench)


@pytest.mark.long
def test_a_savepoint_and_compactions_around_it(loaded: Any) -> None:
    """One that ended last but was asked for before stays; planned ones are taken off,
    for Hudi would keep half of their file groups."""
    bench, table, low = loaded
    asked = asked_of(change(bench, table, low, "one", compact_after=1))
    last = follow(bench, table, "two", compact_after=9).facts["instant"]
    assert_done(bench.compact(table, asked))
    then, kept = seen(bench, table), keep(bench, table)
    assert kept == last > asked
    asked_of(follow(bench, table, "three", compact_after=1))
    rows, newer = seen(bench, table), keep(bench, table)
    assert bench.state(table).pending_compactions == ()

    for name, expected in ((newer, rows), (kept, then)):
        asked_of(follow(bench, table, "four", compact_after=1))
        assert_done(mend(bench, table, "restore", name))
        assert seen(bench, table) == expected
        found = bench.state(table).timeline.find(asked)
        assert found is not None
        assert found.state == "COMPLETED"
    follow(bench, table, "five", compact_after=9)
    assert seen(bench, table) == wanted(bench)


def cut_off_at_its_end(
    bench: LakeBench, table: Any, kept: str, left: Mapping[Path, bytes]
) -> Mapping[str, Any]:
    """The facts of the restore that comes after one whose answer was lost. left: files
    of a completed compaction that it had just taken back: Hudi, going on, leaves that
    one as a plan and says so with an error."""
    (done,) = timeline_of(table).glob("*_*.restore")
    done.unlink()
    for path, content in left.items():
        path.write_bytes(content)
    assert read_begun_restore(table.path, bench.state(table).timeline) == kept
    again = assert_done(mend(bench, table, "restore", kept)).facts
    assert {i.state for i in bench.state(table).timeline.instants} == {"COMPLETED"}
    return again


def test_a_restore_takes_rows_and_position_back_together(
    loaded: Any, monkeypatch: Any
) -> None:
    bench, table, low = loaded
    first = change(bench, table, low, "one", compact_after=9)
    then, position = seen(bench, table), first.facts["position"]["to"]
    kept = assert_done(mend(bench, table, "savepoint")).facts["savepoint"]
    second = change(bench, table, position, "two", compact_after=1)
    assert_done(bench.compact(table, asked_of(second)))
    planned = timeline_of(table) / f"{asked_of(second)}.compaction.requested"
    plan = planned.read_bytes()
    low = second.facts["position"]["to"]
    change(bench, table, low, "three", compact_after=1)
    unknown = mend(bench, table, "restore", "2" * 17)
    assert unknown.error is not None
    assert unknown.error.code == "unknown_instant"

    report = assert_done(mend(bench, table, "restore", kept))
    assert report.facts["position"]["to"] == position
    asked, missed, *_ = report.facts["misses"]
    assert "5 rows will be read again" in asked
    assert f"whose at lies after {position}" in missed
    assert (report.facts["reaches_back"], report.facts["then"]) == (True, "resync")
    assert len(report.facts["taken_away"]) == 4
    assert report.facts["pending_compactions"] == []
    assert seen(bench, table) == then
    for left in ({}, {planned: plan}):
        again = cut_off_at_its_end(bench, table, kept, left)
        assert len(again["taken_away"]) == len(left)
        assert again["instant"] == report.facts["instant"]
        assert seen(bench, table) == then
    # capture goes on from where the rows are
    bench.sql(ROWS.replace("(1, 20)", "(21, 30)").replace("- interval '1 day'", ""))
    for death in deaths_around(apply, "commit_rows"):
        with monkeypatch.context() as patch:
            patch.setattr(apply, "commit_rows", death)
            with pytest.raises(KeyboardInterrupt):
                bench.sync(table, position)
    change(bench, table, position, "four", compact_after=9)
    assert seen(bench, table) == wanted(bench)
    assert len(seen(bench, table)) == 30
    assert_done(bench.compact(table))
    monkeypatch.setattr(timeline, "SAVEPOINT_KEPT", timedelta())
    assert_done(mend(bench, table, "clean"))
    assert not bench.state(table).timeline.savepoints
    assert seen(bench, table) == wanted(bench)


def test_a_restore_tells_what_its_source_answered(
    loaded: Any,
) -> None:
    bench, table, low = loaded
    kept = assert_done(mend(bench, table, "savepoint")).facts["savepoint"]
    change(bench, table, low, "one")
    done = assert_done(mend(bench, table, "restore", kept)).facts
    assert done["reaches_back"] is True
    assert "5 rows will be read again" in done["misses"][0]

    away = replace(bench.source, port=1)
    done = assert_done(mend(bench, table, "restore", kept, source=away)).facts
    assert done["reaches_back"] is None
    assert "could not be asked" in done["misses"][0]
    bench.sql("ALTER TABLE o RENAME at TO later")
    done = assert_done(mend(bench, table, "restore", kept)).facts
    assert done["reaches_back"] is False
    assert done["misses"][0].startswith("Resync the table: the source no longer")
    assert "column at is gone, or this login may not SELECT it" in done["misses"][0]
    bench.sql("ALTER TABLE o RENAME later TO at")
    change(bench, table, low, "two")
    assert seen(bench, table) == wanted(bench)
