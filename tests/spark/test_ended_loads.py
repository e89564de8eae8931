"""Loads that ended behind their commit: what is in the lake counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ingest.contract.job import CHUNK_ROWS, SnapshotWork
from ingest.contract.positions import to_text
from ingest.driver.apply import apply
from ingest.driver.apply.jobrun import StopMode
from ingest.driver.capture import snapshot
from ingest.driver.run import run_job
from ingest.lake.ledger import read_line
from ingest.lake.staging import StagingArea
from tests.spark.beginnings import Beginnings, loaded_from
from tests.spark.lake_bench import LakeBench, assert_done

CREATE = "CREATE TABLE o (id int PRIMARY KEY, v text, at timestamptz DEFAULT now())"
ROWS = "INSERT INTO o SELECT g, 'load', now() - interval '1 day' FROM generate_series(1, 5) g"


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
    assert read_line(lake_bench.lake, 1, 7, 1) is not None


def test_a_resync_is_never_older_than_what_a_sync_has_sealed(
    lake_bench: LakeBench, beginnings: Beginnings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancelled, and asked for again behind a sync that died between seal and commit:
    that one's rows were written over those of the fresh copy."""
    bench = lake_bench
    table, _ = beginnings.copy(bench, loaded_from(CREATE, ROWS))
    early = bench.next_epoch()
    ago = "at = now() - interval '%s seconds' WHERE id = 1"
    bench.sql(f"UPDATE o SET v = 'former', {ago % 120}")

    def killed(*_: object, **__: object) -> None:
        raise RuntimeError("killed")

    hour_ago = to_text(datetime.now(UTC) - timedelta(hours=1), has_zone=True)
    with monkeypatch.context() as patch:
        patch.setattr(apply, "commit_rows", killed)
        assert bench.sync(table, hour_ago).outcome != "succeeded"
    bench.sql(f"UPDATE o SET v = 'newest', {ago % 90}")
    work = SnapshotWork(CHUNK_ROWS, 0)
    report = bench.run(bench.spec("resync", table, epoch=early, snapshot=work))
    assert report.error is not None
    assert report.error.code == "lake_went_ahead", "another epoch is asked for"
    done = assert_done(bench.load(table, kind="resync"))
    assert_done(bench.sync(table, done.facts["bound"]))
    assert (1, "newest") in bench.rows(table, "id", "v")
