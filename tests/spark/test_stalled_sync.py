"""A sync that is stopped with the lock in its hand, is superseded, and comes back."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.spark.driver_process import DriverProcess
from tests.spark.held_fence import HeldFence
from tests.spark.lake_bench import LakeBench, assert_done
from tests.spark.test_syncs import loaded, values
from tests.waiting import wait_for

__all__ = ["loaded"]


def signal_all(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def timeline_of(table: Any) -> list[str]:
    names = (Path(table.path) / ".hoodie" / "timeline").iterdir()
    return [p.name for p in names if p.name[0] != "."]


def unfinished(table: Any) -> list[str]:
    """Instants of syncs that have begun to write and have not completed."""
    names = timeline_of(table)
    done = {n.partition("_")[0] for n in names if "_" in n}
    begun = (n.partition(".")[0] for n in names if n.endswith("deltacommit.inflight"))
    return [asked for asked in begun if asked not in done]


def change(bench: LakeBench, value: str) -> None:
    bench.sql(f"UPDATE o SET v = '{value}', at = now() WHERE id <= 2")


def source_values(bench: LakeBench) -> dict[int, str]:
    return {row[0]: row[1] for row in bench.sql("SELECT id, v FROM o")}


def is_looked_at(fence: HeldFence, driver: DriverProcess, spec: Any) -> bool:
    """Whether the sync looks at its fence once more before it ends."""
    wait_for(lambda: fence.is_looked_at() or driver.has_ended(spec), "it", pause=0.001)
    return fence.is_looked_at()


def looks_of(driver: DriverProcess, table: Any, spec: Any) -> int:
    """How often an undisturbed sync looks at its fence while it is unfinished: each
    time that Hudi has taken the lock."""
    looks = 0
    fence = HeldFence(spec.fence.path, spec.fence.token)
    driver.run(spec)
    while is_looked_at(fence, driver, spec):
        looks += bool(unfinished(table))
        fence.answer()
    fence.put_back()
    assert driver.report(spec).outcome == "succeeded"
    return looks


def stop_at(driver: DriverProcess, table: Any, spec: Any, look: int) -> HeldFence:
    """Stopped while it looks at its fence for that time."""
    looks = 0
    fence = HeldFence(spec.fence.path, spec.fence.token)
    driver.run(spec)
    while is_looked_at(fence, driver, spec):
        looks += bool(unfinished(table))
        if looks == look:
            break
        fence.answer()
    signal_all([process.pid for process in driver.family()], signal.SIGSTOP)
    fence.put_back()
    return fence


@pytest.mark.long
def test_a_stopped_sync_that_comes_back_changes_nothing(
    loaded: Any, tmp_path: Path
) -> None:
    """At each of the last locks of its commit, behind the last of which it would be
    completed."""
    from config.toolchain.paths import spark_classpath

    bench, table, low = loaded
    driver = DriverProcess(
        spark_classpath(), tmp_path / "stopped", bench.password, silence=600.0
    )
    family: list[int] = []
    try:
        driver.wait_for(lambda m: m["type"] == "ready")
        change(bench, "undisturbed")
        spec = bench.sync_spec(table, low)
        looks = looks_of(driver, table, spec)
        assert looks
        low = driver.report(spec).facts["position"]["to"]
        token = 1
        for look in range(max(1, looks - 2), looks + 1):
            change(bench, f"stopped at {look}")
            spec = bench.sync_spec(table, low, token=token)
            family = [process.pid for process in driver.family()]
            fence = stop_at(driver, table, spec, look)
            (asked,) = unfinished(table)
            token += 1
            bench.take_over(table, token)
            for value in (f"successor of {look}", f"and once more {look}"):
                change(bench, value)
                done = assert_done(bench.sync(table, low, token=token))
                low = done.facts["position"]["to"]
            signal_all(family, signal.SIGCONT)
            fence.answer(token)
            report = driver.report(spec)
            assert report.outcome == "transient", report
            assert not [n for n in timeline_of(table) if n.startswith(f"{asked}_")]
            assert values(bench, table) == source_values(bench)
            equal = assert_done(bench.verify(table, position=low))
            assert equal.facts["verdict"] == "equal"
            # the next one begins with the lock of now
            token += 1
            bench.take_over(table, token)
        assert_done(bench.compact(table))
        assert values(bench, table) == source_values(bench)
    finally:
        signal_all(family, signal.SIGCONT)
        driver.end()
