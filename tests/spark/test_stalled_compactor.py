"""A compactor that stalls, is superseded, and comes back: it completes nothing."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Any

import psutil
import pytest

from ingest.contract.job import CompactWork, JobReport
from ingest.lake.layout import read_layout
from tests.spark.driver_process import DriverProcess
from tests.spark.held_fence import HeldFence
from tests.spark.test_maintenance import assert_done, change, loaded, seen, wanted
from tests.waiting import wait_for

__all__ = ["loaded"]


@pytest.mark.long
def test_a_stalled_compactor_that_comes_back_is_fenced(
    loaded: Any, tmp_path: Path
) -> None:
    """A process of its own, stopped by SIGSTOP before it completes its plan."""
    from config.toolchain.paths import spark_classpath

    bench, table, low = loaded
    first = change(bench, table, low, "one", compact_after=1)
    (asked,) = first.facts["pending_compactions"]
    timeline = Path(table.path) / ".hoodie" / "timeline"
    stalled = DriverProcess(spark_classpath(), tmp_path / "stalled", "", silence=600.0)
    try:
        spec = bench.spec("compact", table, compact=CompactWork((asked,)))
        family, fence = stop_while_inflight(stalled, spec, timeline)
        bench.take_over(table, 2, "service")
        # Hudi's own guard: the stopped one's heartbeat has to grow old first
        done = assert_done(
            wait_for(lambda: compacted(bench, table, asked), "its age", pause=2)
        )
        assert done.facts["pending_compactions"] == []
        # ingest goes on, and one more plan is made before it comes back
        change(bench, table, first.facts["position"]["to"], "two", compact_after=1)
        before = completed(timeline, asked)
        resume(family)
        fence.answer(2)
        report = stalled.report(spec)
        assert report.outcome == "transient"
        assert report.error is not None
        assert report.error.code == "fenced"
        assert completed(timeline, asked) == before
        assert len(before) == 1
        # what a task of its would have written now is a stray that no commit lists
        assert len(bases(table, asked)) == 2
        one = bases(table, asked)[0]
        file_id, _, rest = one.name.partition("_")
        shutil.copy(one, one.with_name(f"{file_id}_9-{rest}"))
        assert strays(bench, table) == 1
        assert seen(bench, table) == wanted(bench)
    finally:
        resume(stalled.family())
        stalled.end()
    assert_done(bench.compact(table, token=2))
    assert strays(bench, table) == 0
    assert len(bases(table, asked)) == 2
    assert seen(bench, table) == wanted(bench)


def compacted(bench: Any, table: Any, asked: str) -> JobReport | None:
    done: JobReport = bench.compact(table, asked, token=2)
    if done.outcome != "transient":
        return done
    assert done.error is not None
    assert done.error.code == "compaction_begun"
    return None


def stop_while_inflight(
    driver: DriverProcess, spec: Any, timeline: Path
) -> tuple[list[psutil.Process], HeldFence]:
    """Its processes, and its fence, at which it looks."""
    (asked,) = spec.compact.instants
    driver.wait_for(lambda m: m["type"] == "ready")
    fence = HeldFence(spec.fence.path, spec.fence.token)
    driver.run(spec)
    inflight = timeline / f"{asked}.compaction.inflight"
    fence.hold_at(inflight.exists, "the compactor to look at its fence")
    family = driver.family()
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.suspend()
    fence.put_back()
    return family, fence


def resume(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()


def completed(timeline: Path, asked: str) -> list[str]:
    return sorted(p.name for p in timeline.glob(f"{asked}_*.commit"))


def bases(table: Any, asked: str) -> list[Path]:
    return list(Path(table.path).glob(f"*_{asked}.parquet"))


def strays(bench: Any, table: Any) -> int:
    twins = read_layout(table.path, bench.state(table).timeline).twins
    return sum(len(one.names) - 1 for one in twins)
