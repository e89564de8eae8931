"""A light commit lists a partition when anything but its own kind was completed since.

Where it must not: a second load by somebody else would go unseen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingest.contract.job import RepairWork
from tests.spark.lake_bench import assert_done
from tests.spark.test_light_commits import (
    Writers,
    cleaned,
    compacted,
    superseded,
    writers,
)
from tests.spark.test_repair import drift, mend, timeline_of

__all__ = ["writers"]


def appended(writers: Writers) -> None:
    writers.change("spark", "appended")


def written_by_another(writers: Writers) -> None:
    """By a light writer that shares nothing with this one: what is known of a table is
    known by its path."""
    own, low = writers.table, writers.low
    alias = Path(f"{own.path}-alias")
    alias.symlink_to(own.path)
    writers.table = replace(own, path=str(alias))
    writers.change("light", "another")
    writers.table = own
    alias.unlink()
    assert writers.low != low


def kept(writers: Writers) -> None:
    assert_done(mend(writers.bench, writers.table, "savepoint"))


def rolled_back(writers: Writers) -> None:
    superseded(writers, "light")
    work, table = RepairWork("rollback"), writers.table
    spec = writers.bench.spec("repair", table, repair=work, token=writers.token)
    assert len(assert_done(writers.bench.run(spec)).facts["rolled_back"]) == 1


def restored(writers: Writers) -> None:
    bench, table, low = writers.bench, writers.table, writers.low
    (savepoint,) = bench.state(table).timeline.savepoints
    done = mend(bench, table, "restore", savepoint, token=writers.token)
    assert_done(done)
    # what came since is read again
    writers.low = low
    bench.sql("UPDATE o SET at = clock_timestamp()")


def listed(writers: Writers, write: Callable[[], Any]) -> int:
    groups = writers.bench.spark._jvm.io.sluice.lake.FileGroups
    before = groups.listings()
    write()
    return int(groups.listings() - before)


def instants(writers: Writers) -> set[str]:
    return {path.name for path in timeline_of(writers.table).glob("*_*")}


@pytest.mark.long
def test_whatever_others_complete_asks_for_a_listing(writers: Writers) -> None:
    found: dict[str, tuple[int, int]] = {}
    kinds = (appended, written_by_another, compacted, cleaned, kept, rolled_back)
    writers.change("light", "first")
    for other in (*kinds, restored):
        own = listed(writers, lambda: writers.change("light", "before"))
        before = instants(writers)
        other(writers)
        assert instants(writers) != before, other
        behind = listed(writers, lambda: writers.change("light", "behind"))
        found[other.__name__] = own, behind
        writers.require_equal()
    assert found == dict.fromkeys(found, (0, 1))


def test_a_second_load_is_seen_behind_light_commits(writers: Writers) -> None:
    for text in ("one", "two"):
        writers.change("light", text)
    buckets = writers.table.buckets
    drift(writers.bench, writers.table, buckets=buckets, operation="bulk_insert")
    writers.bench.sql("UPDATE o SET v = 'refused', at = clock_timestamp()")
    refused = writers.bench.sync(writers.table, writers.low).error
    assert refused is not None
    assert refused.code == "bucket_conflict"
