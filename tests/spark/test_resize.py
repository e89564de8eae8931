"""Another number of buckets for real tables: the same rows, one identity, at any death."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import pytest

from ingest.contract.job import RepairWork, SyncWork
from ingest.driver.apply import replacement
from ingest.driver.table_services import repair, resize
from ingest.lake.hudi.identity import identity_for
from ingest.lake.hudi.options import table_options
from ingest.lake.layout import metadata_partitions, read_layout
from ingest.lake.place import place_at
from tests.spark.lake_bench import LakeBench, assert_done
from tests.spark.test_maintenance import CREATE, ROWS, change, loaded, seen, wanted

__all__ = ["loaded"]


def buckets_of(bench: LakeBench, table: Any) -> list[int]:
    layout = read_layout(table.path, bench.state(table).timeline)
    assert layout.conflicts == {}
    return sorted(g.bucket for g in layout.groups if g.bucket is not None)


def write_from_outside(bench: LakeBench, table: Any) -> None:
    """As Hudi does it by default: with a metadata table."""
    found = bench.frame(table).where("id > 10")
    columns = [c for c in found.columns if not c.startswith("_hoodie")]
    options = table_options(identity_for(table), name=table.name)
    options |= {
        "hoodie.metadata.enable": "true",
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.write.rolling.metadata.keys": "_sluice",
    }
    rows = found.select(*columns)
    rows = bench.spark.createDataFrame(rows.collect(), rows.schema)
    rows.write.format("hudi").options(**options).mode("append").save(table.path)


@pytest.mark.long
def test_a_metadata_table_of_another_writer_is_removed_even_after_a_kill(
    loaded: Any, monkeypatch: Any
) -> None:
    bench, table, low = loaded
    base = place_at(table.path)
    low = change(bench, table, low, "one", compact_after=9).facts["position"]["to"]
    assert metadata_partitions(base) == ()
    write_from_outside(bench, table)
    assert "files" in metadata_partitions(base)
    rows = seen(bench, table)
    work = RepairWork("drop-metadata-table")
    spec = bench.spec("repair", table, repair=work)

    def die(*_: Any) -> Any:
        raise KeyboardInterrupt

    for name in ("write_client", "require_fence"):
        with monkeypatch.context() as patch:
            patch.setattr(repair, name, die)
            with contextlib.suppress(KeyboardInterrupt):
                bench.run(spec)
    done = assert_done(bench.run(spec)).facts
    assert "files" in done["dropped"]
    assert metadata_partitions(base) == ()
    assert not (base / ".hoodie" / "metadata").exists()
    assert seen(bench, table) == rows == wanted(bench)
    assert assert_done(bench.run(spec)).facts["dropped"] == []
    # Hudi removes one with each commit of ours
    write_from_outside(bench, table)
    change(bench, table, low, "two", compact_after=9)
    assert metadata_partitions(base) == ()
    assert seen(bench, table) == wanted(bench)


def spec_of(bench: LakeBench, table: Any, count: int, **k: Any) -> Any:
    return bench.spec("repair", table, repair=RepairWork("resize", buckets=count), **k)


def test_a_table_is_resized_and_only_the_new_count_can_write(loaded: Any) -> None:
    bench, table, low = loaded
    first = change(bench, table, low, "one", compact_after=1)
    assert len(first.facts["pending_compactions"]) == 1
    rows = seen(bench, table)

    done = assert_done(bench.run(spec_of(bench, table, 5))).facts
    assert (done["buckets"], done["committed_rows"]) == (5, 20)
    assert (done["before"]["buckets"], done["before"]["file_groups"]) == (2, 2)
    assert (done["after"]["buckets"], done["after"]["file_groups"]) == (5, 5)
    assert done["pending_compactions"] == []
    assert seen(bench, table) == rows == wanted(bench)
    assert buckets_of(bench, table) == [0, 1, 2, 3, 4]
    position = bench.state(table).position
    assert position is not None
    assert position.end == first.facts["position"]["to"]
    new = replace(table, buckets=5)
    assert position.identity == identity_for(new)

    kept = done["savepoint"]
    refused = bench.sync(table, position.end).error
    assert refused is not None
    assert refused.code == "identity_drift"
    assert "buckets is 5 in the lake, 2 in the plan" in refused.message
    two = change(bench, new, position.end, "two", compact_after=1).facts
    assert_done(bench.compact(new))
    assert seen(bench, table) == wanted(bench)
    assert buckets_of(bench, table) == [0, 1, 2, 3, 4]

    # going back to before it brings the old count back, and says so
    work = RepairWork("restore", kept)
    back = assert_done(bench.run(bench.spec("repair", new, repair=work))).facts
    assert (back["buckets"], back["position"]["to"]) == (2, position.end)
    assert seen(bench, table) == rows
    # a sync that was told of the commits which are gone reads nothing
    work = SyncWork(two["position"]["to"], 0, behind=two["epoch"])
    stale = bench.run(bench.spec("sync", table, sync=work)).error
    assert stale is not None
    assert stale.code == "lake_went_back"
    change(bench, table, position.end, "four", compact_after=9)
    assert seen(bench, table) == wanted(bench)
    assert buckets_of(bench, table) == [0, 1]


STEPS = [
    (resize, "roll_back_writes"),
    (resize, "make_savepoint"),
    (resize, "require_space"),
    (replacement, "commit_rows"),
    (replacement, "require_same"),
]
# around the savepoint and around the commit a death leaves something
FEW = [step for step in STEPS if step[1] in {"make_savepoint", "commit_rows"}]


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(FEW, id="what leaves something"),
        pytest.param(STEPS, id="all", marks=pytest.mark.long),
    ],
)
def test_it_survives_its_death_at_every_step(
    loaded: Any, monkeypatch: Any, steps: list[tuple[Any, str]]
) -> None:
    bench, table, low = loaded
    change(bench, table, low, "one", compact_after=1)
    spec = spec_of(bench, table, 3)
    for module, name in steps:
        real = getattr(module, name)
        counts = []
        for is_after in (False, True):

            def die(*arguments: Any, **k: Any) -> Any:
                if is_after:  # noqa: B023 - called within this turn
                    real(*arguments, **k)  # noqa: B023
                raise KeyboardInterrupt

            with monkeypatch.context() as patch:
                patch.setattr(module, name, die)
                with contextlib.suppress(KeyboardInterrupt):
                    bench.run(spec)
            position = bench.state(table).position
            assert position is not None
            counts.append(position.identity.buckets)
            assert set(buckets_of(bench, table)) == set(range(counts[-1]))
            # whoever was told the other count cannot write
            other = replace(table, buckets=5 - counts[-1])
            error = bench.sync(other, position.end).error
            assert error is not None
            assert error.code == "identity_drift"
        assert counts == ([2, 3] if name == "commit_rows" else counts[:1] * 2)
    done = assert_done(bench.run(replace(spec, attempt=2))).facts
    assert (done["buckets"], done["committed_rows"]) == (3, 20)
    assert seen(bench, table) == wanted(bench)
    # whatever is there is compared with the moment before the commit
    told = lambda rows, _: (rows.count(), id(rows))  # noqa: E731
    monkeypatch.setattr(replacement, "digest_of", told)
    differs = bench.run(replace(spec, attempt=3)).error
    assert differs is not None
    assert differs.code == "repair_differs"


@pytest.mark.long
def test_partitions_and_an_empty_table_are_resized(lake_bench: LakeBench) -> None:
    lake_bench.sql(CREATE)
    lake_bench.sql(ROWS)
    lake_bench.sql("ALTER TABLE o ADD p int")
    lake_bench.sql("UPDATE o SET p = id % 2")
    table = lake_bench.table("o", cursor="at", partition_by=("p",))
    low = assert_done(lake_bench.load(table)).facts["bound"]
    low = change(lake_bench, table, low, "one", compact_after=1).facts["position"]["to"]
    done = assert_done(lake_bench.run(spec_of(lake_bench, table, 1))).facts
    assert (done["before"]["file_groups"], done["after"]["file_groups"]) == (4, 2)
    assert seen(lake_bench, table) == wanted(lake_bench)
    new = replace(table, buckets=1)
    change(lake_bench, new, low, "two", compact_after=9)
    assert seen(lake_bench, table) == wanted(lake_bench)

    lake_bench.sql("DELETE FROM o")
    empty = lake_bench.table("o", cursor="at")
    assert_done(lake_bench.load(empty))
    assert_done(lake_bench.run(spec_of(lake_bench, empty, 3)))
    lake_bench.sql(ROWS)
    new = replace(empty, buckets=3)
    assert_done(lake_bench.sync(new, None))
    assert seen(lake_bench, empty) == wanted(lake_bench)
