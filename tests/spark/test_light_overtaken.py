"""A small commit that another driver's write or cleaning overtakes is not completed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from ingest.driver.apply import apply, writer
from ingest.driver.apply.replacement import own_columns, snapshot_of
from tests.spark.test_light_commits import Writers, held, writers
from tests.spark.test_stalled_sync import unfinished

__all__ = ["writers"]

LOCK = "hoodie.write.lock."
PROVIDER = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"


@contextmanager
def another_driver(folder: Path) -> Iterator[None]:
    """Where nobody waits for locks of this one: they are of one JVM."""
    lock = {f"{LOCK}provider": PROVIDER, f"{LOCK}filesystem.path": str(folder)}

    def with_lock(real: Any) -> Any:
        return lambda *args, **k: real(*args, **k) | lock

    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((apply, "service_options"), (writer, "write_options")):
            patch.setattr(module, name, with_lock(getattr(module, name)))
        yield


@pytest.mark.parametrize("is_cut_off", [False, True])
def test_a_commit_that_is_rolled_back_meanwhile_is_not_completed(
    writers: Writers, tmp_path: Path, is_cut_off: bool
) -> None:
    """As by a cleaning in another driver, when this one had shown no life so long.
    is_cut_off: the files are gone, and the instant is still there."""
    bench, table = writers.bench, writers.table
    rows = writers.seen()

    def roll_back() -> None:
        (asked,) = unfinished(table)
        timeline = Path(table.path) / ".hoodie" / "timeline"
        begun = {path: path.read_bytes() for path in timeline.glob(f"{asked}.*")}
        spec = bench.sync_spec(table, writers.low)
        with (
            another_driver(tmp_path),
            apply.write_client(bench.spark, spec) as client,
        ):
            client.rollback(asked)
        if is_cut_off:
            for path, content in begun.items():
                path.write_bytes(content)
            (done,) = timeline.glob("*_*.rollback")
            done.unlink()

    error = held(writers, "light", then=roll_back, is_fenced=False)
    assert error.code == "write_overtaken"
    assert unfinished(table) == []
    assert writers.seen() == rows
    writers.change("light", "again")
    writers.require_equal()


def test_a_commit_that_another_one_overtakes_is_not_completed(
    writers: Writers, tmp_path: Path
) -> None:
    bench, table = writers.bench, writers.table

    def overtake() -> None:
        rows = snapshot_of(bench.spark, bench.sync_spec(table, writers.low))
        own = rows.select(*own_columns(rows)).where("id % 3 = 0")
        spec = bench.sync_spec(table, writers.low)
        assert spec.sync is not None
        epoch = 900
        span = writer.Span(writers.low, writers.low, epoch, epoch)
        batch = writer.Batch(own.withColumn("v", F.lit("overtook")), "upsert", span)
        with another_driver(tmp_path):
            writer.commit_rows(spec, batch, bench.state(table))

    error = held(writers, "light", then=overtake, is_fenced=False)
    assert error.code == "write_overtaken"
    assert unfinished(table) == []
    assert {text for key, text in writers.seen() if key % 3 == 0} == {"overtook"}
    writers.change("light", "again")
    writers.require_equal()
