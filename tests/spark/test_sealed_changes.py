"""Files of changes, as the follower of a log would seal them, on real parts."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from core.errors import SluiceError
from ingest.contract.epochs import Seal, SealedFile
from ingest.contract.events import INDEX, OP
from ingest.contract.table import TableSpec
from ingest.driver.apply import apply
from ingest.driver.apply.rows import spark_type
from ingest.driver.apply.sealed_files import sha256_of
from ingest.lake.epochs import epoch_folder, seals_of, write_seal
from ingest.lake.place import place_at
from ingest.lake.sealed_columns import columns_of
from ingest.sources.dialects import dialect_of
from ingest.sources.select import select_columns
from tests.doubles.changes import ChangeEvent, numbered
from tests.spark.lake_bench import LakeBench, assert_done
from tests.spark.test_repair import deaths_around

SOURCE = 1


@dataclass
class LogFollower:
    """Seals changes of a table that the test gives it."""

    bench: LakeBench
    table: TableSpec

    def seal(self, events: Sequence[ChangeEvent]) -> Seal:
        bench, epoch = self.bench, self.bench.next_epoch()
        file = self._stage(epoch, self.table, list(numbered(events)))
        about = {str(self.table.table_id): 1}
        return write_seal(bench.lake, Seal(SOURCE, epoch, "", "", (file,), about))

    def _stage(
        self, epoch: int, table: TableSpec, events: Sequence[ChangeEvent]
    ) -> SealedFile:
        selection = select_columns(dialect_of("postgresql"), table.columns)
        shape = ", ".join(
            f"{c.alias} {spark_type(c.type).simpleString()}" for c in selection.columns
        )
        names = [c.source_name for c in table.columns]
        keys = dict(zip(table.key, range(len(table.key)), strict=True))
        rows = [
            (*(e.key[keys[n]] if n in keys else e.row.get(n) for n in names), e.op, e.index)
            for e in events
        ]  # fmt: skip
        path = str(table.table_id)
        folder = epoch_folder(self.bench.lake, SOURCE, epoch) / path
        frame = self.bench.spark.createDataFrame(
            rows, f"{shape}, {OP} string, {INDEX} bigint"
        )
        frame.write.parquet(folder.uri)
        return SealedFile(
            table.table_id, path, len(rows), 1,
            sha256=sha256_of(self.bench.spark, folder),
            columns=columns_of(selection, table.columns), has_changes=True,
        )  # fmt: skip


@pytest.fixture
def followed(lake_bench: LakeBench) -> tuple[LakeBench, TableSpec, TableSpec]:
    lake_bench.sql("CREATE TABLE a (id int PRIMARY KEY, v text, w text)")
    lake_bench.sql("CREATE TABLE b (x int, y text, v text, PRIMARY KEY (x, y))")
    lake_bench.sql("INSERT INTO a SELECT g, 'load', 'w' FROM generate_series(1, 5) g")
    lake_bench.sql("INSERT INTO b VALUES (1, 'one', 'load'), (2, 'two', 'load')")
    one, two = lake_bench.table("a"), lake_bench.table("b", key=("x", "y"))
    assert_done(lake_bench.load(one))
    assert_done(lake_bench.load(two))
    return lake_bench, one, two


def change(table: TableSpec, op: str, *key: Any, **row: Any) -> ChangeEvent:
    old = row.pop("old", None)
    return ChangeEvent(table.table_id, op, key, row, old_key=old)  # type: ignore[arg-type]


def bring_up(bench: LakeBench, table: TableSpec, newest: Seal, **k: Any) -> Any:
    run = bench.start(bench.spec("sync", table, **k))
    return apply.apply_sealed(run, bench.spark, newest=newest)


def of_a(bench: LakeBench, table: TableSpec) -> dict[int, tuple[str, str]]:
    return {r[0]: (r[1], r[2]) for r in bench.rows(table, "id", "v", "w")}


def of_two_epochs(bench: LakeBench, one: TableSpec, two: TableSpec) -> list[Seal]:
    """Seals changes of both tables, twice; the newest seal of each."""
    first, second = LogFollower(bench, one), LogFollower(bench, two)
    first.seal(
        [
            change(one, "update", 1, v="first", w="w"),
            change(one, "update", 1, v="second", w="w"),
            change(one, "delete", 2),
            change(one, "insert", 9, v="nine", w="w"),
            change(one, "delete", 9),
            change(one, "update", 7, v="moved", w="w", old=(3,)),
        ]
    )
    second.seal(
        [
            change(two, "insert", 3, "three", v="new"),
            change(two, "delete", 1, "one"),
        ]
    )
    return [
        first.seal(
            [change(one, "insert", 2, v="again", w="w"), change(one, "delete", 4)]
        ),
        second.seal([change(two, "update", 2, "TWO", v="cased", old=(2, "two"))]),
    ]


@pytest.mark.parametrize(
    ("op", "index"),
    [("truncate", 1), ("DELETE", 1), (None, 1), ("delete", None), ("update", 1 << 24)],
)
def test_changes_that_are_not_known_are_not_taken_for_others(
    followed: Any, monkeypatch: pytest.MonkeyPatch, op: Any, index: Any
) -> None:
    """As a newer release might seal them, or one with a mistake."""
    bench, one, _ = followed
    before = of_a(bench, one)
    told = replace(change(one, op, 1), index=index)
    with monkeypatch.context() as patch:
        patch.setattr("tests.spark.test_sealed_changes.numbered", list)
        sealed = LogFollower(bench, one).seal([told])
    with pytest.raises(SluiceError) as refused:
        bring_up(bench, one, sealed)
    assert refused.value.code == "epoch_unreadable"
    assert of_a(bench, one) == before


def test_the_last_change_of_each_key_arrives_once(followed: Any) -> None:
    bench, one, two = followed
    # killed before the commit, and between the commit and the ledger
    newest = of_two_epochs(bench, one, two)
    for death in deaths_around(apply, "commit_rows"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(apply, "commit_rows", death)
            with pytest.raises(KeyboardInterrupt):
                bring_up(bench, one, newest[0])
    bring_up(bench, one, newest[0])
    wanted = {
        1: ("second", "w"),
        2: ("again", "w"),
        5: ("load", "w"),
        7: ("moved", "w"),
    }
    assert of_a(bench, one) == wanted
    assert len(bench.state(one).commits) == 2, "one commit for both epochs, once"
    assert bring_up(bench, two, newest[1])[1] == 4
    assert bench.rows(two, "x", "y", "v") == [(2, "TWO", "cased"), (3, "three", "new")]
    # deletes stay, also once their log files are compacted
    for table in (one, two):
        assert_done(bench.compact(table))
    assert of_a(bench, one) == wanted
    assert bench.frame(two).count() == 2


def test_what_was_sealed_is_what_is_applied(followed: Any) -> None:
    bench, one, _ = followed
    follower = LogFollower(bench, one)
    seal = follower.seal([change(one, "update", 1, v="v", w="w2")])
    # the plan has its columns in another order meanwhile, and its values stay
    other = replace(one, columns=(one.columns[0], one.columns[2], one.columns[1]))
    bring_up(bench, other, seal)
    assert of_a(bench, one)[1] == ("v", "w2")
    seal = follower.seal([change(one, "update", i, v="x", w="w") for i in (1, 5)])
    (file,) = seal.files
    folder = Path(place_at(bench.lake).uri.removeprefix("file://"))
    parts = folder / "_sluice" / "epochs" / "1" / f"{seal.epoch:012d}" / file.path
    first, *others = sorted(parts.glob("*.parquet"))
    assert others
    kept = first.read_bytes()
    commits = len(bench.state(one).commits)
    first.unlink()
    assert refused(bench, one, seal) == "events_damaged"
    # as many rows, and not the same
    largest = max(others, key=lambda p: p.stat().st_size)
    shutil.copy(largest, first)
    assert refused(bench, one, seal) == "events_damaged", "by Hadoop's own checksum"
    first.with_name(f".{first.name}.crc").unlink()
    assert refused(bench, one, seal) == "events_damaged"
    assert len(bench.state(one).commits) == commits
    first.write_bytes(kept)
    bring_up(bench, one, seal)
    assert of_a(bench, one)[5] == ("x", "w")


def refused(bench: LakeBench, table: TableSpec, seal: Seal) -> str:
    with pytest.raises(SluiceError) as caught:
        bring_up(bench, table, seal)
    return caught.value.code


def test_changes_need_a_key_that_a_delete_can_tell(lake_bench: LakeBench) -> None:
    lake_bench.sql("CREATE TABLE p (id int PRIMARY KEY, area text)")
    lake_bench.sql("INSERT INTO p VALUES (1, 'north')")
    table = lake_bench.table("p", partition_by=("area",))
    assert_done(lake_bench.load(table))
    seal = LogFollower(lake_bench, table).seal([change(table, "delete", 1)])
    assert refused(lake_bench, table, seal) == "changes_unsupported"
    assert seals_of(lake_bench.lake, SOURCE, seal.epoch) == [seal]
