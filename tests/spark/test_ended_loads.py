"""Loads that ended behind their commit: what is in the lake counts."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.driver.apply.jobrun import StopMode
from ingest.driver.capture import snapshot
from ingest.driver.run import run_job
from ingest.lake.staging import StagingArea
from tests.spark.lake_bench import LakeBench, assert_done

CREATE = "CREATE TABLE o (id int PRIMARY KEY, v text, at timestamptz DEFAULT now())"
ROWS = "INSERT INTO o SELECT g, 'load', now() - interval '1 day' FROM generate_series(1, 5) g"


@pytest.mark.parametrize("kind", ["snapshot", "resync"])
def test_what_goes_on_behind_a_commit(
    lake_bench: LakeBench, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A load that goes on as another job of its name finds the commit. One of another
    name is another load, and what the former one staged is nothing to it."""
    lake_bench.sql("CREATE TABLE r (id int PRIMARY KEY); INSERT INTO r VALUES (1), (2)")
    table = lake_bench.table("r")
    if kind == "resync":
        assert_done(lake_bench.load(table))

    def died(*about: Any) -> None:
        raise OSError("the driver is gone")

    with monkeypatch.context() as patch:
        patch.setattr(snapshot, "_end", died)
        assert lake_bench.load(table, kind=kind, load="a").outcome != "succeeded"
    commits = lake_bench.state(table).commits
    assert commits[0].position is not None
    lake_bench.sql("DELETE FROM r WHERE id = 1")
    report = assert_done(lake_bench.load(table, kind=kind, load="a"))
    assert lake_bench.rows(table, "id") == [(1,), (2,)]
    assert report.facts["instant"] == commits[0].instant.asked
    assert report.facts["consistency"] == "per_chunk", "nobody knows any more"
    assert len(lake_bench.state(table).commits) == len(commits)
    assert not StagingArea(table.staging).folder.exists()
    other = lake_bench.load(table, kind=kind, load="b")
    if kind == "snapshot":
        assert other.error is not None
        assert other.error.code == "lake_table_exists"
        return
    assert assert_done(other).facts["epoch"] == commits[0].position.epoch_to + 1
    assert lake_bench.rows(table, "id") == [(2,)]


@pytest.mark.parametrize("mode", ["cancel", "pause"])
def test_a_stop_behind_the_commit_is_a_success(
    lake_bench: LakeBench, monkeypatch: pytest.MonkeyPatch, mode: StopMode
) -> None:
    lake_bench.sql("CREATE TABLE r (id int PRIMARY KEY); INSERT INTO r VALUES (1)")
    table = lake_bench.table("r")
    run = lake_bench.start(lake_bench.spec("snapshot", table))
    end = snapshot._end

    def stopped(*about: Any) -> None:
        monkeypatch.setattr(snapshot, "_end", end)
        run.request_stop(mode)
        run.check()

    monkeypatch.setattr(snapshot, "_end", stopped)
    report = assert_done(run_job(run, lake_bench.spark, lake_bench.gates))
    assert report.facts["rows"] == 1
