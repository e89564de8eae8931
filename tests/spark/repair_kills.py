"""Tables in need of each repair, the moments at which its driver is killed, and what
must hold when the job was run again.

Rows are read by hudi-rs, so nothing of ours says that they are right.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from hudi import HudiTableBuilder

from ingest.contract.job import CompactWork, JobReport, JobSpec, RepairWork
from ingest.contract.table import TableSpec
from ingest.driver.apply import writer
from ingest.lake.hudi.timeline import Timeline
from ingest.lake.layout import metadata_partitions
from ingest.lake.place import place_at
from tests.spark.cut_off import cut_off
from tests.spark.lake_bench import LakeBench, assert_done
from tests.spark.test_resize import write_from_outside
from tests.waiting import wait_for

ROWS = 200
# of a table that is resized, which has two before
BUCKETS = 3
Rows = list[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Broken:
    """A table and the job that mends it. rows: what it must have afterwards, None =
    what the source has."""

    kind: str
    source: str
    table: TableSpec
    spec: JobSpec
    rows: Rows | None = None

    @property
    def timeline(self) -> Path:
        return Path(self.table.path) / ".hoodie" / "timeline"


# kind → files that appear below the table or its staging while the job is under way
MOMENTS: dict[str, tuple[str, ...]] = {
    "rollback": ("*.rollback.requested", "*.rollback.inflight"),
    "rollback-write": ("*.rollback.requested", "*.rollback.inflight"),
    "unschedule": ("*.rollback.requested", "*.rollback.inflight", "*.rollback"),
    "deduplicate": (
        "*.savepoint.inflight",
        "repair",
        "*.replacecommit.requested",
        "*.replacecommit.inflight",
        "*.replacecommit",
    ),
    "clean": ("*.clean.requested", "*.clean.inflight", "*.clean"),
    "savepoint": ("*.savepoint.inflight", "*.savepoint"),
    "restore": ("*.restore.requested", "*.restore.inflight", "*.rollback.inflight"),
    "compact": ("*.compaction.inflight", "*_{asked}.parquet"),
}


def broken(bench: LakeBench, kind: str, name: str) -> Broken:
    """A new source table of that name, its lake table, and what is wrong with it."""
    bench.sql(
        f"CREATE TABLE {name} (id int PRIMARY KEY, v text,"
        " at timestamptz DEFAULT now())"
    )
    bench.sql(
        f"INSERT INTO {name} SELECT g, 'load', now() - interval '1 day'"
        f" FROM generate_series(1, {ROWS}) g"
    )
    table = bench.table(name, cursor="at")
    assert_done(bench.load(table))
    (asked,) = change(bench, name, table, "one", compact_after=1)
    spec, rows = _BREAK[kind.partition("-")[0]](bench, name, table, asked, kind)
    return Broken(kind, name, table, spec, rows)


def change(
    bench: LakeBench, name: str, table: TableSpec, value: str, **k: Any
) -> list[str]:
    """Some rows change and a sync brings them; the plans that wait then."""
    bench.sql(f"UPDATE {name} SET v = '{value}', at = now() WHERE id % 7 = 1")
    position = bench.state(table).position
    assert position is not None
    report = assert_done(bench.sync(table, position.end, **k))
    return list(report.facts["pending_compactions"])


def _mend(bench: LakeBench, table: TableSpec, work: RepairWork, **k: Any) -> JobSpec:
    return bench.spec("repair", table, repair=work, **k)


def _break_attempt(
    bench: LakeBench, name: str, table: TableSpec, asked: str, kind: str
) -> tuple[JobSpec, Rows | None]:
    """A compactor, or a writer, that was cut off in its work."""
    if kind == "rollback-write":
        bench.sql(f"UPDATE {name} SET v = 'cut', at = now() WHERE id % 5 = 1")
        position = bench.state(table).position
        assert position is not None
        before = source_rows(bench, name, but="cut", is_now="load", also="one")
        # a light commit would be over before anybody takes its place
        with patch.object(writer, "MOST_ROWS", 0):
            spec = bench.sync_spec(table, position.end)
            cut_off(bench, spec, "*.deltacommit.inflight")
        return _mend(bench, table, RepairWork("rollback"), token=2), before
    spec = bench.spec("compact", table, compact=CompactWork((asked,)))
    cut_off(bench, spec, f"{asked}.compaction.inflight")
    if kind == "retry":
        return replace(spec, fence=replace(spec.fence, token=2)), None
    work = {
        "rollback": RepairWork("rollback", asked),
        "unschedule": RepairWork("unschedule", asked),
        "replan": RepairWork("unschedule", asked, replan=True),
    }[kind]
    return _mend(bench, table, work), None


def _break_buckets(
    bench: LakeBench, name: str, table: TableSpec, asked: str, kind: str
) -> tuple[JobSpec, Rows | None]:
    """Tasks of a load that ran twice: a bucket's rows in two file groups."""
    base = next(iter(sorted(Path(table.path).glob("00000000-*.parquet"))))
    file_id, _, rest = base.name.partition("_")
    other = f"{file_id[:9]}{'f' * 8}{file_id[17:]}"
    shutil.copy(base, base.with_name(f"{other}_{rest}"))
    assert len(read_rows(table)) > ROWS
    return _mend(bench, table, RepairWork("deduplicate")), None


def _break_age(
    bench: LakeBench, name: str, table: TableSpec, asked: str, kind: str
) -> tuple[JobSpec, Rows | None]:
    """Old versions of its files, with as many commits since as stay anyway."""
    assert_done(bench.compact(table, asked, keep_seconds=0.0))
    (asked,) = change(bench, name, table, "two", compact_after=1)
    assert_done(bench.compact(table, asked, keep_seconds=0.0))
    change(bench, name, table, "three", compact_after=99)
    timeline = Path(table.path) / ".hoodie" / "timeline"
    newest = max(timeline.glob("*_*.deltacommit"), key=lambda p: p.name)
    asked, _, done = newest.stem.partition("_")
    for number in range(1, 15):
        one = str(int(asked) + number)
        for state in ("requested", "inflight"):
            source = timeline / f"{asked}.deltacommit.{state}"
            shutil.copy(source, timeline / f"{one}.deltacommit.{state}")
        shutil.copy(newest, timeline / f"{one}_{int(done) + number}.deltacommit")
    spec = _mend(bench, table, RepairWork("clean"), keep_seconds=0.0)
    return spec, None


def _break_nothing(
    bench: LakeBench, name: str, table: TableSpec, asked: str, kind: str
) -> tuple[JobSpec, Rows | None]:
    if kind == "savepoint":
        return _mend(bench, table, RepairWork("savepoint")), None
    if kind == "compact":
        return bench.spec("compact", table, compact=CompactWork((asked,))), None
    if kind == "resize":
        return _mend(bench, table, RepairWork("resize", buckets=BUCKETS)), None
    report = assert_done(bench.run(_mend(bench, table, RepairWork("savepoint"))))
    then = source_rows(bench, name)
    assert_done(bench.compact(table))
    change(bench, name, table, "two", compact_after=1)
    work = RepairWork("restore", report.facts["savepoint"])
    return _mend(bench, table, work), then


def _break_index(
    bench: LakeBench, name: str, table: TableSpec, asked: str, kind: str
) -> tuple[JobSpec, Rows | None]:
    """A writer that keeps a metadata table, as Hudi does by default."""
    write_from_outside(bench, table)
    assert metadata_partitions(place_at(table.path)) != ()
    return _mend(bench, table, RepairWork("drop-metadata-table")), None


_BREAK: dict[str, Callable[..., tuple[JobSpec, Rows | None]]] = {
    "rollback": _break_attempt,
    "unschedule": _break_attempt,
    "deduplicate": _break_buckets,
    "clean": _break_age,
    "savepoint": _break_nothing,
    "restore": _break_nothing,
    "compact": _break_nothing,
    "replan": _break_attempt,
    "retry": _break_attempt,
    "resize": _break_nothing,
    "metadata": _break_index,
}


def token_after(spec: JobSpec) -> int:
    return spec.fence.token + 7


def again(spec: JobSpec, bench: LakeBench) -> JobSpec:
    """The next attempt, under leases that nobody held before."""
    token = token_after(spec)
    for scope in ("write", "service"):
        bench.take_over(spec.table, token, scope)
    fence = replace(spec.fence, token=token)
    return replace(spec, attempt=spec.attempt + 1, fence=fence)


def repeat(bench: LakeBench, one: Broken) -> JobReport:
    """As the product does: anew until Hudi believes that the dead one is dead."""
    spec = again(one.spec, bench)
    attempts = itertools.count(spec.attempt)

    def end() -> JobReport | None:
        report = bench.run(replace(spec, attempt=next(attempts)))
        if report.outcome != "transient":
            return report
        assert report.error is not None
        assert report.error.code in {"compaction_begun", "rollback_begun"}, report
        return None

    return assert_done(wait_for(end, f"{one.kind} to end", pause=2))


def require_whole(bench: LakeBench, one: Broken, report: JobReport) -> None:
    """Rows, timeline, and that the table goes on: syncs and compaction."""
    wanted = one.rows if one.rows is not None else source_rows(bench, one.source)
    assert read_rows(one.table) == wanted, one.kind
    timeline = bench.state(one.table).timeline
    left = [i for i in timeline.instants if i.state == "INFLIGHT"]
    assert left == [], (one.kind, left)
    assert timeline.pending_writes == (), one.kind
    for fact, what in _PROOF.items():
        if one.kind == fact:
            assert what(one, timeline, report), (one.kind, report)


def require_alive(bench: LakeBench, one: Broken) -> None:
    """What comes after: a sync, and a compaction over everything."""
    token = token_after(one.spec)
    position = bench.state(one.table).position
    assert position is not None
    bench.sql(f"UPDATE {one.source} SET v = 'after', at = now() WHERE id % 3 = 1")
    assert_done(bench.sync(one.table, position.end, token=token, compact_after=99))
    assert read_rows(one.table) == source_rows(bench, one.source), one.kind
    assert_done(bench.compact(one.table, token=token))
    assert read_rows(one.table) == source_rows(bench, one.source), one.kind


def _asked(one: Broken) -> str:
    work = one.spec.repair
    return work.instant if work else (one.spec.compact or CompactWork()).instants[0]


def _state_of(one: Broken, timeline: Timeline) -> str:
    found = timeline.find(_asked(one))
    return found.state if found else "gone"


_PROOF: dict[str, Callable[[Broken, Timeline, JobReport], bool]] = {
    "rollback": lambda one, t, _: _state_of(one, t) == "REQUESTED",
    "unschedule": lambda one, t, _: _state_of(one, t) == "gone",
    "compact": lambda one, t, _: _state_of(one, t) == "COMPLETED",
    "retry": lambda one, t, _: _state_of(one, t) == "COMPLETED",
    "replan": lambda one, t, _: (
        _state_of(one, t) == "gone" and len(t.pending_compactions) == 1
    ),
    "resize": lambda one, t, r: r.facts["buckets"] == BUCKETS,
    "metadata": lambda one, t, _: metadata_partitions(place_at(one.table.path)) == (),
    "savepoint": lambda one, t, r: t.savepoints.keys() == {r.facts["savepoint"]},
    "deduplicate": lambda one, t, _: len(t.savepoints) == 1,
    "clean": lambda one, t, _: len(list(Path(one.table.path).glob("*.parquet"))) == 2,
    "restore": lambda one, t, _: t.savepoints.keys() == {_asked(one)},
}


def read_rows(table: TableSpec) -> Rows:
    reader = HudiTableBuilder.from_base_uri(table.path).build()
    found = pa.Table.from_batches(reader.read()).select(["id", "v"]).to_pylist()
    return sorted((row["id"], row["v"]) for row in found)


def source_rows(
    bench: LakeBench, name: str, *, but: str = "", is_now: str = "", also: str = ""
) -> Rows:
    """As the source has them. `but`: a value that the lake must not have yet; there
    its rows are `is_now`, or `also` where the change before reached them."""
    found = []
    for key, value in bench.sql(f"SELECT id, v FROM {name} ORDER BY id"):
        if but and value == but:
            value = also if key % 7 == 1 else is_now
        found.append((key, value))
    return found


def fresh(one: Broken, pattern: str) -> Callable[[], bool]:
    """Whether a file of that kind has appeared since now."""
    wanted = pattern.format(asked=_asked(one)) if "{asked}" in pattern else pattern

    def found() -> set[Path]:
        return set(_find(one, wanted))

    before = found()
    return lambda: found() != before


def _find(one: Broken, pattern: str) -> Iterator[Path]:
    if pattern == "repair":
        with contextlib.suppress(FileNotFoundError):  # it comes and goes
            yield from (Path(one.table.staging) / "repair").iterdir()
    elif pattern.endswith(".parquet"):
        yield from Path(one.table.path).glob(pattern)
    else:
        yield from one.timeline.glob(pattern)
