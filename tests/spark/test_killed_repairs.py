"""A driver is killed while it is in the middle of every kind of repair; each is run
again, and what must hold of each is asked of the files, of hudi-rs and of the source."""

from __future__ import annotations

import os
import random
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingest.contract.job import Lane
from tests.processes import wait_until_gone
from tests.spark import repair_kills as kills
from tests.spark.driver_process import DriverProcess
from tests.spark.lake_bench import LakeBench
from tests.waiting import wait_for

SEED = 20260101
# as many side by side as the lanes of a driver have places for
LANES: tuple[Lane, ...] = ("snapshot",) * 4 + ("apply",) * 4 + ("maintenance",)
# a sync and a compaction follow
GO_ON = {"rollback"}


@pytest.mark.long
def test_a_driver_killed_in_every_repair_at_once(
    lake_bench: LakeBench, tmp_path: Path
) -> None:
    from config.toolchain.paths import spark_classpath

    bench, chance = lake_bench, random.Random(SEED)
    driver = DriverProcess(spark_classpath(), tmp_path / "driver", bench.password)
    try:
        kinds = list(kills.MOMENTS)
        tables = [kills.broken(bench, k, f"t{n}") for n, k in enumerate(kinds)]
        began = {one.kind: kills.fresh(one, one_of(one, chance)) for one in tables}
        chance.shuffle(tables)
        driver.wait_for(lambda m: m["type"] == "ready")
        family = driver.family()  # before the moment: looking takes a while
        for lane, one in zip(LANES, tables, strict=False):
            driver.run(replace(one.spec, lane=lane))

        def is_half_begun() -> bool:
            return sum(begun() for begun in began.values()) >= len(kinds) // 2

        wait_for(is_half_begun, lambda: driver.log.read_text()[-2000:], pause=0.005)
        os.killpg(driver.process.pid, signal.SIGKILL)
        wait_until_gone(family)
    finally:
        driver.end()
    ended = {m["report"]["job_id"] for m in driver.heard if m["type"] == "report"}
    cut_off = [one.kind for one in tables if one.spec.job_id not in ended]
    assert len(cut_off) >= len(kinds) // 2, cut_off
    # Hudi believes in a compactor for some seconds after its last sign of life
    for one in sorted(tables, key=lambda o: o.kind == "compact"):
        kills.require_whole(bench, one, kills.repeat(bench, one))
        if one.kind in GO_ON:
            kills.require_alive(bench, one)


def one_of(one: Any, chance: random.Random) -> str:
    return chance.choice(kills.MOMENTS[one.kind])
