"""Real tables broken on purpose, and repaired: rows are the source's before and after."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingest.contract.job import CompactWork, RepairWork
from ingest.driver.apply import replacement, undoing
from ingest.lake.hudi.identity import identity_for
from ingest.lake.hudi.options import (
    CommitPosition,
    WriterFence,
    encode_position,
    write_options,
)
from tests.spark.cut_off import cut_off
from tests.spark.lake_bench import LakeBench, assert_done
from tests.spark.test_maintenance import change, loaded, seen, wanted

__all__ = ["loaded"]


def asked_of(report: Any) -> str:
    (asked,) = report.facts["pending_compactions"]
    return str(asked)


def mend(bench: LakeBench, table: Any, action: Any, instant: str = "", **k: Any) -> Any:
    work = RepairWork(action, instant, k.pop("replan", False), k.pop("dry_run", False))
    return bench.run(bench.spec("repair", table, repair=work, **k))


def timeline_of(table: Any) -> Path:
    return Path(table.path) / ".hoodie" / "timeline"


def half_compact(bench: LakeBench, table: Any, asked: str) -> None:
    """A compactor that is fenced when its files are there and its commit is not."""
    inflight = f"{asked}.compaction.inflight"
    work = CompactWork((asked,))
    cut_off(bench, bench.spec("compact", table, compact=work), inflight)
    assert (timeline_of(table) / inflight).exists()
    written = next(Path(table.path).glob(f"*_{asked}.parquet"))
    # and one whose marker got lost
    group = written.name.partition("_")[0]
    unmarked = written.with_name(f"{group}_0-77-77_{asked}.parquet")
    unmarked.write_bytes(written.read_bytes()[:100])


def test_a_half_written_compaction_is_rolled_back_unscheduled_and_planned_anew(
    loaded: Any,
) -> None:
    bench, table, low = loaded
    first = change(bench, table, low, "one", compact_after=1)
    asked = asked_of(first)
    half_compact(bench, table, asked)
    rows = seen(bench, table)
    assert rows == wanted(bench)
    before = state_of(table)

    report = assert_done(mend(bench, table, "rollback", asked))
    assert report.facts["rolled_back"] == [asked]
    assert report.facts["pending_compactions"] == [asked]
    found = bench.state(table).timeline.find(asked)
    assert found is not None
    assert found.state == "REQUESTED"
    assert not list(Path(table.path).glob(f"*_{asked}.parquet"))
    assert seen(bench, table) == rows
    # there is nothing inflight any more
    again = mend(bench, table, "rollback", asked)
    assert again.error is not None
    assert again.error.code == "unknown_instant"
    # asked again after its answer was lost: done already
    assert_done(mend(bench, table, "rollback", asked, attempt=2))

    # killed right before the rollback completed: the same state once more
    done = next(timeline_of(table).glob("*.rollback"))
    put_back(table, before)
    done.unlink()
    assert_done(mend(bench, table, "rollback", asked))
    assert not list(timeline_of(table).glob("*.compaction.inflight"))
    # it went on with the rollback that it found, and left none behind
    states = {i.state for i in bench.state(table).timeline.instants}
    assert states == {"COMPLETED", "REQUESTED"}
    assert seen(bench, table) == rows

    put_back(table, before)
    report = assert_done(mend(bench, table, "unschedule", asked, replan=True))
    assert (report.facts["unscheduled"], report.facts["rolled_back"]) == (
        [asked],
        [asked],
    )
    (planned,) = report.facts["planned"]
    assert report.facts["pending_compactions"] == [planned]
    assert planned > asked
    assert seen(bench, table) == rows
    assert_done(bench.compact(table, planned, token=2))
    change(bench, table, first.facts["position"]["to"], "two", compact_after=9)
    assert seen(bench, table) == wanted(bench)


def state_of(table: Any) -> dict[Path, bytes]:
    """The unfinished attempt's files, to play the same death again."""
    base = Path(table.path)
    names = [*base.rglob("*.compaction.*"), *base.glob("0*.parquet")]
    return {path: path.read_bytes() for path in names}


def put_back(table: Any, files: dict[Path, bytes]) -> None:
    for path, data in files.items():
        path.write_bytes(data)
    for path in Path(table.path).rglob(".*.crc"):
        path.unlink()


def test_a_plan_whose_request_is_gone_is_taken_away_even_after_a_kill(
    loaded: Any, monkeypatch: Any
) -> None:
    bench, table, low = loaded
    first = change(bench, table, low, "one", compact_after=1)
    asked = asked_of(first)
    half_compact(bench, table, asked)
    rows = seen(bench, table)
    (timeline_of(table) / f"{asked}.compaction.requested").unlink()
    with pytest.raises(Exception, match="Could not read commit details"):
        bench.frame(table).count()
    files = set(timeline_of(table).iterdir())
    stopped = bench.sync(table, first.facts["position"]["to"])
    assert stopped.error is not None
    assert (stopped.outcome, stopped.error.code) == ("transient", "plan_unreadable")
    assert set(timeline_of(table).iterdir()) == files, "nothing to roll back"

    refused = mend(bench, table, "rollback", asked)
    assert refused.error is not None
    assert refused.error.code == "plan_unreadable"
    real = undoing.remove_attempt

    def killed(path: str, instant: str) -> list[str]:
        one = next(Path(path).glob(f"*_{instant}.parquet"))
        one.unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(undoing, "remove_attempt", killed)
        with pytest.raises(KeyboardInterrupt):
            mend(bench, table, "unschedule", asked)
    assert undoing.remove_attempt is real
    report = assert_done(mend(bench, table, "unschedule", asked, attempt=2))
    assert report.facts["unscheduled"] == [asked]
    assert seen(bench, table) == rows == wanted(bench)
    change(bench, table, first.facts["position"]["to"], "two", compact_after=1)
    assert seen(bench, table) == wanted(bench)


def drift(bench: LakeBench, table: Any, *, buckets: int, operation: str) -> None:
    """What a writer outside Sluice does: rows of the table once more."""
    identity = identity_for(table)
    data = bench.frame(table)
    rows = data.select(*[c for c in data.columns if not c.startswith("_hoodie")])
    rows = bench.spark.createDataFrame(rows.collect(), rows.schema)
    position = bench.state(table).position
    assert position is not None
    last = CommitPosition(
        1, position.start, position.end, position.epoch_from, position.epoch_to,
        "outside", 1, identity,
    )  # fmt: skip
    options = write_options(
        identity,
        name=table.name,
        fence=WriterFence(f"{bench.lake}/_sluice/fence/{table.table_id}", 1),
        operation=operation,  # type: ignore[arg-type]
        position=encode_position(last),
    )
    options |= {"hoodie.bucket.index.num.buckets": str(buckets)}
    rows.write.format("hudi").options(**options).mode("append").save(table.path)


@pytest.mark.long
def test_a_second_load_is_replaced_away_where_hudi_refuses_to_write(
    loaded: Any,
) -> None:
    bench, table, low = loaded
    low = change(bench, table, low, "one", compact_after=1).facts["position"]["to"]
    drift(bench, table, buckets=2, operation="bulk_insert")
    bench.sql("UPDATE o SET v = 'refused', at = now() WHERE id <= 5")
    refused = bench.sync(table, low).error
    assert refused is not None
    assert refused.code == "bucket_conflict"
    assert len(seen(bench, table)) == 40

    done = assert_done(mend(bench, table, "deduplicate")).facts
    assert (done["bucket_conflicts"], done["committed_rows"]) == (2, 20)
    assert "was loaded 2 times" in done["summary"]
    assert done["pending_compactions"] == []
    state = bench.state(table)
    assert state.timeline.savepoints.keys() == {done["savepoint"]}
    assert state.position is not None
    assert state.position.identity == identity_for(table)
    # the epochs go on where they were, and the table can be written again
    change(bench, table, low, "after", compact_after=9)
    assert seen(bench, table) == wanted(bench)
    assert_done(bench.compact(table))
    assert seen(bench, table) == wanted(bench)
    clean = assert_done(mend(bench, table, "deduplicate")).facts
    assert "No duplicates: 20 rows" in clean["summary"]
    assert "instant" not in clean


def test_drift_is_explained_and_its_repair_survives_deaths_around_its_commit(
    loaded: Any, monkeypatch: Any
) -> None:
    bench, table, low = loaded
    drift(bench, table, buckets=4, operation="upsert")
    found = assert_done(mend(bench, table, "deduplicate", dry_run=True)).facts
    assert found["rows"] == len(seen(bench, table))
    assert found["surplus"] == found["rows"] - found["distinct_keys"] > 0
    assert found["distinct_keys"] == 20
    assert "another number of buckets than 2" in found["summary"]
    one = found["keys"]["duplicated"][0]
    assert [c["stays"] for c in one["copies"]] == [True, False]
    assert not bench.state(table).timeline.savepoints

    spec = bench.spec("repair", table, repair=RepairWork("deduplicate"))
    for death in deaths_around(replacement, "commit_rows"):
        with monkeypatch.context() as patch:
            patch.setattr(replacement, "commit_rows", death)
            with pytest.raises(KeyboardInterrupt):
                bench.run(spec)
        # what the dead process staged lies where the next attempt looks
        shutil.copytree(table.path, Path(table.staging) / "repair" / "left")
    # a sync got in between, with a column that the repair did not know
    bench.sql("ALTER TABLE o ADD extra int DEFAULT 7")
    bench.sql("UPDATE o SET v = 'later', at = now() WHERE id <= 5")
    columns = bench.table("o", cursor="at").columns
    assert_done(bench.sync(replace(table, columns=columns), low))
    done = assert_done(bench.run(spec))
    assert done.facts["committed_rows"] == 20
    compared = []

    def told(rows: Any, columns: list[str]) -> tuple[int, int]:
        compared.append(columns)
        return rows.count(), len(compared)

    monkeypatch.setattr(replacement, "digest_of", told)
    differs = bench.run(replace(spec, attempt=3)).error
    assert differs is not None
    assert differs.code == "repair_differs"
    assert "has 20 rows, or others, where 20 were kept" in differs.message
    assert "v" in compared[0]
    assert "extra" not in compared[0]


def deaths_around(module: Any, name: str) -> tuple[Any, Any]:
    """In place of that function: killed before it, killed behind it."""
    real = getattr(module, name)

    def before(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    def behind(*arguments: Any, **k: Any) -> Any:
        real(*arguments, **k)
        raise KeyboardInterrupt

    return before, behind
