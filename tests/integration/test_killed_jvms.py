"""What killed JVMs leave behind lies at home and goes, without a JVM here.

`tests.spark` shows that real ones leave nothing elsewhere.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from gateway.engines.launch import EngineProcess, EngineSpec
from ingest.management.commands.driver import clean_up, driver_command
from tests.waiting import LIMIT_SECONDS

LEFT = ("liblz4-java-1.so", "libzstd-jni-2.so", "spark-3/blockmgr-4/00/shuffle")


def leave(folder: Path) -> None:
    for name in LEFT:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def test_a_driver_host_deletes_what_earlier_drivers_left(tmp_path, settings) -> None:
    jar = tmp_path / "a.jar"
    jar.touch()
    settings.SLUICE_SPARK_JARS = str(jar)
    command = driver_command(tmp_path)
    assert command.scratch.is_relative_to(tmp_path)
    leave(command.scratch / "warm")
    leave(command.scratch / "job-1")
    clean_up(command)  # the next host
    assert not command.scratch.exists()


def test_the_end_of_a_killed_engine_takes_its_scratch_along(tmp_path) -> None:
    stub = tmp_path / "stub"
    stub.write_text("#!/bin/sh\nexec sleep 600\n")
    stub.chmod(0o700)
    spec = EngineSpec(
        home=tmp_path / "home", jars=(Path("a.jar"),), memory="1m", java=str(stub)
    )

    async def scenario() -> list[Path]:
        process = EngineProcess(spec, "killed", "secret")
        await process.launch()
        folders = [process._state_dir, process._private]
        leave(process._state_dir / "tmp")
        assert process.pid
        os.killpg(process.pid, signal.SIGKILL)
        assert await asyncio.wait_for(process.wait(), LIMIT_SECONDS) == -signal.SIGKILL
        await process.end(grace_seconds=0)
        return folders

    assert [folder for folder in asyncio.run(scenario()) if folder.exists()] == []
