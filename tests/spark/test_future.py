"""Clocks that are ahead: none writes, and what one has written shuts no table."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ingest.contract.table import TableSpec
from ingest.driver.apply import clocks, future
from tests.spark.beginnings import Beginnings, loaded_from
from tests.spark.fast_clock import fast_clock
from tests.spark.lake_bench import LakeBench, assert_done, with_attempt
from tests.spark.test_repair import deaths_around, mend
from tests.spark.test_syncs import CREATE, ROWS, loaded, values

__all__ = ["loaded"]

AHEAD = timedelta(days=1500)


def write_ahead(bench: LakeBench) -> tuple[TableSpec, str]:
    """Syncs, a compaction, a plan and a savepoint of four years from now; the low bound
    of the next sync. Rows 2, 3 and 9 have values of then."""
    table, facts = loaded_from(CREATE, ROWS)(bench)
    low, built = facts["bound"], Path(bench.lake).with_name("clock")
    built.mkdir()
    with (
        fast_clock(bench.spark, table.path, AHEAD, built),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(clocks, "wall", lambda: clocks.datetime.now(clocks.UTC) + AHEAD)
        patch.setattr(clocks, "MOST_AHEAD", AHEAD * 2)
        patch.setattr(clocks, "MOST_AHEAD_OF_SOURCE", AHEAD * 2)
        bench.sql("INSERT INTO o VALUES (9, 'nine')")
        bench.sql("UPDATE o SET v = 'two', at = now() WHERE id = 2")
        low = assert_done(bench.sync(table, low)).facts["position"]["to"]
        assert_done(bench.compact(table))
        assert_done(mend(bench, table, "savepoint"))
        bench.sql("UPDATE o SET v = 'three', at = now() WHERE id = 3")
        spec = bench.sync_spec(table, low, compact_after=1)
        low = assert_done(bench.run(spec)).facts["position"]["to"]
    state = bench.state(table)
    assert state.timeline.completed_writes[-1].asked[:4] >= "2030"
    assert state.pending_compactions
    return table, str(low)


@pytest.fixture
def ahead(
    lake_bench: LakeBench, beginnings: Beginnings
) -> tuple[LakeBench, TableSpec, str]:
    return lake_bench, *beginnings.copy(lake_bench, write_ahead)


def of_the_future(table: Any) -> list[str]:
    names = (p.name for p in Path(table.path).rglob("*") if p.is_file())
    return [
        name for name in names if "_2030" in name or name.lstrip(".").startswith("2030")
    ]


def require_goes_on(bench: LakeBench, table: Any, low: str) -> None:
    """Everything that a table does works again, and the lake is the source."""
    assert of_the_future(table) == []
    bench.sql("UPDATE o SET v = 'four', at = now() WHERE id = 4")
    done = assert_done(bench.sync(table, low))
    assert values(bench, table)[4] == "four"
    assert_done(bench.compact(table))
    assert_done(mend(bench, table, "clean"))
    equal = assert_done(bench.verify(table, position=done.facts["position"]["to"]))
    assert equal.facts["verdict"] == "equal", equal


@pytest.mark.long
def test_a_rollback_keeps_the_rows_of_commits_of_the_future(
    ahead: Any, monkeypatch: Any
) -> None:
    bench, table, low = ahead
    then = values(bench, table)
    refused = bench.sync(table, low)
    assert refused.error is not None
    assert refused.error.code == "clock_behind"
    assert "roll the table back" in refused.error.hint
    # what only reads, or takes away, is not refused
    assert assert_done(bench.verify(table, position=low)).facts["verdict"] == "equal"
    for death in deaths_around(future, "remove_future"):
        with monkeypatch.context() as patch:
            patch.setattr(future, "remove_future", death)
            with pytest.raises(KeyboardInterrupt):
                mend(bench, table, "rollback")
        assert values(bench, table) == then
        if of_the_future(table):
            assert bench.sync(table, low).outcome == "transient"
    again = assert_done(mend(bench, table, "rollback"))
    assert again.facts.get("from_the_future", []) == []
    assert values(bench, table) == then
    require_goes_on(bench, table, low)


@pytest.mark.long
def test_a_resync_takes_commits_of_the_future_away(ahead: Any) -> None:
    bench, table, _ = ahead
    done = assert_done(bench.load(table, kind="resync"))
    require_goes_on(bench, table, done.facts["bound"])


def test_a_clock_that_was_set_back_takes_no_commit_of_now_away(
    loaded: Any, monkeypatch: Any
) -> None:
    """The first attempt of a resync has committed, a second one ends it."""
    bench, table, low = loaded
    bench.sql("UPDATE o SET v = 'new', at = now()")
    spec = bench.spec("resync", table)
    low = assert_done(bench.run(spec)).facts["bound"]
    wanted = values(bench, table)

    def behind() -> Any:
        return clocks.datetime.now(clocks.UTC) - timedelta(minutes=10)

    with monkeypatch.context() as patch:
        patch.setattr(clocks, "wall", behind)
        refused = bench.run(with_attempt(spec, 2))
        assert (refused.outcome, refused.error.code) == ("transient", "clock_behind")
        # set back after it was compared with the database's
        patch.setattr(future, "require_not_behind", lambda run: None)
        refused = bench.run(with_attempt(spec, 3))
        assert (refused.outcome, refused.error.code) == ("transient", "clock_behind")
    assert values(bench, table) == wanted
    assert_done(bench.run(with_attempt(spec, 4)))
    assert_done(bench.sync(table, low))
    assert values(bench, table) == wanted


def test_what_a_death_left_of_the_future_goes_with_the_next_attempt(
    loaded: Any,
) -> None:
    """Files whose instants were gone already."""
    bench, table, _ = loaded
    spec = bench.spec("resync", table)
    assert_done(bench.run(spec))
    rows = values(bench, table)
    base = next(Path(table.path).glob("*.parquet"))
    stem = base.name.rpartition("_")[0]
    shutil.copy(base, base.with_name(f"{stem}_20300101000000000.parquet"))
    assert of_the_future(table)
    assert_done(bench.run(with_attempt(spec, 2)))
    assert of_the_future(table) == []
    assert values(bench, table) == rows


def test_a_clock_that_is_ahead_writes_nothing(loaded: Any, monkeypatch: Any) -> None:
    bench, table, low = loaded
    before = bench.state(table).timeline
    bench.sql("INSERT INTO o VALUES (9, 'nine')")
    hour = timedelta(hours=1)
    monkeypatch.setattr(clocks, "wall", lambda: clocks.datetime.now(clocks.UTC) + hour)

    def require_refused(of: str) -> None:
        refused = bench.sync(table, low)
        assert refused.outcome == "transient"
        assert refused.error is not None
        assert refused.error.code == "clock_ahead"
        assert of in refused.error.message
        assert bench.state(table).timeline == before

    require_refused("metadata database")
    assert bench.compact(table).error.code == "clock_ahead"  # type: ignore[union-attr]
    # the database is on the same host, say: the source tells
    monkeypatch.setattr(clocks, "MOST_AHEAD", 2 * hour)
    require_refused("source")
    assert_done(bench.verify(table, position=low))
    monkeypatch.undo()
    assert_done(bench.sync(table, low))
    assert values(bench, table)[9] == "nine"
