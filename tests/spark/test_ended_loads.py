"""Loads that ended behind their commit: what is in the lake counts."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.capture import snapshot
from ingest.lake.commit.jobrun import StopMode
from ingest.lake.ledger import read_ledger_entry
from ingest.lake.staging import StagingArea
from ingest.spark.jobs import run_job
from tests.spark.lake_bench import LakeBench, assert_done


@pytest.mark.parametrize("kind", ["snapshot", "resync"])
def test_what_goes_on_behind_a_commit(
    lake_bench: LakeBench, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A first load goes on as another job of its epoch and finds the commit. What a
    re-sync staged is nothing to the next one, which has another epoch."""
    lake_bench.sql("CREATE TABLE r (id int PRIMARY KEY); INSERT INTO r VALUES (1), (2)")
    table, is_new = lake_bench.table("r"), kind == "resync"
    if is_new:
        assert_done(lake_bench.load(table))

    def died(*about: Any) -> None:
        raise OSError("the driver is gone")

    with monkeypatch.context() as patch:
        patch.setattr(snapshot, "_account", died)
        assert lake_bench.load(table, kind=kind).outcome != "succeeded"
    commits = lake_bench.state(table).commits
    assert commits[0].position is not None
    lake_bench.sql("DELETE FROM r WHERE id = 1")
    epoch = commits[0].position.epoch_to + is_new
    report = assert_done(lake_bench.run(lake_bench.spec(kind, table, epoch=epoch)))
    assert lake_bench.rows(table, "id") == ([(2,)] if is_new else [(1,), (2,)])
    assert len(lake_bench.state(table).commits) == len(commits) + is_new
    assert (report.facts["instant"] == commits[0].instant.asked) != is_new
    assert not StagingArea(table.staging).folder.exists()


@pytest.mark.parametrize("mode", ["cancel", "pause"])
def test_a_stop_behind_the_commit_is_a_success(
    lake_bench: LakeBench, monkeypatch: pytest.MonkeyPatch, mode: StopMode
) -> None:
    lake_bench.sql("CREATE TABLE r (id int PRIMARY KEY); INSERT INTO r VALUES (1)")
    table = lake_bench.table("r")
    run = lake_bench.start(lake_bench.spec("snapshot", table, epoch=7))
    account = snapshot._account

    def stopped(*about: Any) -> None:
        monkeypatch.setattr(snapshot, "_account", account)
        run.request_stop(mode)
        run.check()

    monkeypatch.setattr(snapshot, "_account", stopped)
    report = assert_done(run_job(run, lake_bench.spark, lake_bench.gates))
    assert report.facts["rows"] == 1
    assert read_ledger_entry(lake_bench.lake, 1, 7) is not None
