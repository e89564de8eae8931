"""How engines end: abandoned, orphaned, stopped. Runs last: it uses up the shared one."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from gateway.engines.launch import clean_orphans
from gateway.engines.port import EngineUnavailable
from tests.processes import wait_until_gone
from tests.spark.engine_bench import EngineBench
from tests.waiting import LIMIT_SECONDS


def test_a_closed_control_channel_ends_the_engine(bench: EngineBench) -> None:
    processes = [psutil.Process(bench.pid), psutil.Process(bench.java_pid)]
    bench.tell("hang_up")
    wait_until_gone(processes)
    with pytest.raises(EngineUnavailable):
        bench.connect("eve")


def test_an_engine_dies_with_its_gateway_and_leaves_nothing(bench: EngineBench) -> None:
    started = bench.tell("start")
    assert started["java_pid"] != bench.java_pid
    processes = [psutil.Process(started["pid"]), psutil.Process(started["java_pid"])]
    home = Path(started["log"]).parents[1]
    bench.gateway.kill()
    bench.gateway.wait()
    # until they are waited for, too: `clean_orphans` would count them
    _, alive = psutil.wait_procs(processes, timeout=LIMIT_SECONDS)
    assert not alive
    assert list((home / "run").glob("engine-*.pid.json"))
    assert clean_orphans(home / "run") == []
    assert not list((home / "run").glob("engine-*.pid.json"))


def test_orphans_are_killed_only_when_they_are_ours(tmp_path: Path) -> None:
    mine = psutil.Process(os.getpid())
    stranger = tmp_path / "engine-x.pid.json"
    stranger.write_text(f'{{"pid": {mine.pid}, "born": {mine.create_time() - 100}}}')
    assert clean_orphans(tmp_path) == []
    assert not stranger.exists()
