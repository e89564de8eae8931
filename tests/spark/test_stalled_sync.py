"""A sync that is stopped with the lock in its hand, is superseded, and comes back."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.spark.driver_process import DriverProcess
from tests.spark.file_watch import watching
from tests.spark.lake_bench import LakeBench, assert_done
from tests.spark.test_rounds import loaded, values
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


def has_ended(driver: DriverProcess, spec: Any) -> bool:
    ended = (m["report"]["job_id"] for m in list(driver.heard) if "report" in m)
    return spec.job_id in ended


def locks_of(driver: DriverProcess, table: Any, spec: Any) -> int:
    """How often an undisturbed sync looks at its fence while it is unfinished: each
    time that Hudi has taken the lock."""
    looks = 0
    with watching(Path(spec.fence.path)) as fence:
        driver.run(spec)
        wait_for(
            lambda: unfinished(table) or has_ended(driver, spec), "it", pause=0.001
        )
        while unfinished(table):
            looks += fence.wait(0.001)
    assert driver.report(spec).outcome == "succeeded"
    return looks


def stop_at(driver: DriverProcess, table: Any, spec: Any, look: int) -> list[int]:
    """Stopped when it has looked at its fence so often; its processes."""
    family = [process.pid for process in driver.family()]
    with watching(Path(spec.fence.path)) as fence:
        driver.run(spec)
        wait_for(
            lambda: unfinished(table) or has_ended(driver, spec), "it", pause=0.001
        )
        looks = 0
        while looks < look and unfinished(table):
            looks += fence.wait(0.001)
        signal_all(family, signal.SIGSTOP)
    return family


@pytest.mark.long
def test_a_stopped_sync_that_comes_back_changes_nothing(
    loaded: Any, tmp_path: Path
) -> None:
    """At its first write, and at each lock from then on, the last one included, behind
    which the commit completes."""
    from config.parts.paths import spark_classpath

    bench, table, low = loaded
    driver = DriverProcess(
        spark_classpath(), tmp_path / "stopped", bench.password, silence=600.0
    )
    family: list[int] = []
    try:
        driver.wait_for(lambda m: m["type"] == "ready")
        change(bench, "undisturbed")
        spec = bench.round_spec(table, low)
        locks = locks_of(driver, table, spec)
        low = driver.report(spec).facts["position"]["to"]
        token, were_unfinished = 1, 0
        for look in range(max(0, locks - 2), locks + 1):
            change(bench, f"stopped at {look}")
            spec = bench.round_spec(table, low, token=token)
            family = stop_at(driver, table, spec, look)
            asked = unfinished(table)
            were_unfinished += bool(asked)
            token += 1
            bench.take_over(table, token)
            for value in (f"successor of {look}", f"and once more {look}"):
                change(bench, value)
                done = assert_done(bench.round(table, low, token=token))
                low = done.facts["position"]["to"]
            signal_all(family, signal.SIGCONT)
            report = driver.report(spec)
            if asked:
                assert report.outcome == "transient", report
                assert not [
                    n for n in timeline_of(table) if n.startswith(f"{asked[0]}_")
                ]
            assert values(bench, table) == source_values(bench)
            equal = assert_done(bench.verify(table, position=low))
            assert equal.facts["verdict"] == "equal"
            # the next one begins with the lock of now
            token += 1
            bench.take_over(table, token)
        assert were_unfinished
        assert_done(bench.compact(table))
        assert values(bench, table) == source_values(bench)
    finally:
        signal_all(family, signal.SIGCONT)
        driver.end()
