"""What somebody else changed in a real table's own files is put back; what a dead
driver left half made stands in no repair's way."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from ingest.contract.job import SyncWork
from ingest.lake.commits import read_properties
from ingest.lake.hudi.identity import identity_for, property_drift
from ingest.lake.place import place_at
from tests.spark.lake_bench import LakeBench, assert_done
from tests.spark.test_maintenance import change, loaded, seen, wanted
from tests.spark.test_repair import drift, mend, timeline_of

__all__ = ["loaded"]


def test_changed_properties_are_put_back_and_a_half_savepoint_is_made_whole(
    loaded: Any,
) -> None:
    bench, table, low = loaded
    low = change(bench, table, low, "one", compact_after=9).facts["position"]["to"]
    properties = Path(table.path) / ".hoodie" / "hoodie.properties"
    text = properties.read_text()
    properties.write_text(
        text.replace("EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING")
        + "hoodie.table.partial.update.mode=IGNORE_DEFAULTS\n"
    )
    (properties.parent / ".hoodie.properties.crc").unlink(missing_ok=True)
    refused = bench.sync(table, low)
    assert refused.error is not None
    assert refused.error.code == "identity_drift"
    assert_done(mend(bench, table, "rollback"))
    found = read_properties(place_at(table.path))
    assert found is not None
    assert property_drift(found, identity_for(table)) == ()
    assert seen(bench, table) == wanted(bench)

    newest = bench.state(table).timeline.completed_writes[-1].asked
    (timeline_of(table) / f"{newest}.savepoint.inflight").touch()
    kept = assert_done(mend(bench, table, "savepoint")).facts["savepoint"]
    assert kept == newest
    made = bench.state(table).timeline.savepoints
    # one that is there is made anew: its days begin again
    assert_done(mend(bench, table, "savepoint"))
    again = bench.state(table).timeline.savepoints
    assert (made.keys(), again[kept] > made[kept]) == ({kept}, True)
    change(bench, table, low, "two", compact_after=9)
    assert seen(bench, table) == wanted(bench)


def test_rows_in_a_bucket_that_the_table_has_not_are_moved(loaded: Any) -> None:
    """Without a single copy: their next change would miss them all the same."""
    bench, table, low = loaded
    low = change(bench, table, low, "one", compact_after=9).facts["position"]["to"]
    drift(bench, table, buckets=4, operation="upsert")
    for path in Path(table.path).glob("*0000000[01]-*"):
        if not path.name.endswith(".crc"):
            path.unlink()
    strange = set(seen(bench, table))
    assert 0 < len(strange) < 20
    report = assert_done(mend(bench, table, "deduplicate"))
    assert report.facts["surplus"] == 0
    assert report.facts["committed_rows"] == len(strange)
    buckets = {p.name[:8] for p in Path(table.path).glob("*.parquet")}
    assert buckets >= {"00000000", "00000001"}
    assert set(seen(bench, table)) == strange
    assert "instant" not in assert_done(mend(bench, table, "deduplicate")).facts


def test_a_table_that_lost_its_timeline_is_not_taken_for_an_unborn_one(
    lake_bench: LakeBench,
) -> None:
    lake_bench.sql("CREATE TABLE r (id int PRIMARY KEY); INSERT INTO r VALUES (1)")
    table = lake_bench.table("r")
    assert_done(lake_bench.load(table))
    timeline = Path(table.path) / ".hoodie" / "timeline"
    kept = timeline.rename(timeline.with_name("elsewhere"))
    for kind in ("snapshot", "resync"):
        refused = lake_bench.load(table, kind=kind).error
        assert refused is not None
        assert refused.code == "timeline_lost"
        assert ".parquet lies there" in refused.message
    # another program's table, whose instants lie elsewhere
    properties = timeline.parent / "hoodie.properties"
    own = properties.read_text()
    version = "hoodie.table.version="
    properties.write_text(own.replace(f"{version}9", f"{version}6"))
    assert properties.read_text() != own
    refused = lake_bench.load(table).error
    assert refused is not None
    assert refused.code == "identity_drift"
    properties.write_text(own)
    kept.rename(timeline)
    assert lake_bench.rows(table, "id") == [(1,)]


def test_a_fresh_copy_leaves_no_plan_that_speaks_of_what_it_replaced(
    loaded: Any,
) -> None:
    bench, table, low = loaded
    planned = change(bench, table, low, "one", compact_after=1).facts
    assert len(planned["pending_compactions"]) == 1
    done = assert_done(bench.load(table, kind="resync")).facts
    assert done["pending_compactions"] == []
    change(bench, table, done["bound"], "two", compact_after=1)
    assert_done(bench.compact(table))
    assert seen(bench, table) == wanted(bench)


def test_a_table_whose_files_are_gone_is_not_begun_anew_by_changes(loaded: Any) -> None:
    bench, table, low = loaded
    shutil.rmtree(table.path)
    work = SyncWork(low, 0, behind=101)
    gone = bench.run(bench.spec("sync", table, sync=work)).error
    assert gone is not None
    assert gone.code == "files_gone"
    assert "epoch 101" in gone.message
    assert not bench.state(table).exists
    assert_done(bench.load(table, kind="resync"))
    assert seen(bench, table) == wanted(bench)
