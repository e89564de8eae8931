"""Launching an engine process, with a stub in place of Spark."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path
from typing import Any, cast
from unittest import mock

import psutil
import pytest

from gateway.engines import launch
from gateway.engines.launch import EngineProcess, EngineSpec, clean_orphans
from gateway.engines.port import EngineUnavailable
from gateway.engines.spark_thrift import SparkEngine
from gateway.management.commands import gateway as gateway_command
from tests.processes import wait_until_gone
from tests.waiting import LIMIT_SECONDS

SECRET = "s3cret-of-this-start"
STUB = """#!/bin/sh
env
sleep 600 &
echo "arguments: $*"
wait
"""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EngineSpec:
    monkeypatch.setenv("SLUICE_SECRETS_KEYS", "a-key-of-the-gateway")
    stub = tmp_path / "stub"
    stub.write_text(STUB)
    stub.chmod(0o700)
    return EngineSpec(
        home=tmp_path / "home", jars=(Path("a.jar"),), memory="1m", java=str(stub)
    )


async def _until_logged(process: EngineProcess) -> str:
    while "arguments" not in process.log_tail():
        await asyncio.sleep(0.05)
    return process.log_path.read_text()


def test_secrets_travel_only_in_a_private_file(spec: EngineSpec) -> None:
    async def scenario() -> tuple[str, Path]:
        process = EngineProcess(spec, "one", SECRET)
        await process.launch()
        try:
            log = await asyncio.wait_for(_until_logged(process), LIMIT_SECONDS)
            start_file = Path(log.rsplit(" ", 1)[1].strip())
            assert json.loads(start_file.read_text())["secret"] == SECRET
            assert stat.S_IMODE(start_file.stat().st_mode) == 0o600
            assert stat.S_IMODE(start_file.parent.stat().st_mode) == 0o700
            assert len(str(process.socket_path)) < 100
            return log, start_file
        finally:
            await process.end(grace_seconds=0)

    log, start_file = asyncio.run(scenario())
    assert SECRET not in log
    assert "a-key-of-the-gateway" not in log
    assert "LC_ALL=C.UTF-8" in log
    assert not start_file.parent.exists()


def test_the_whole_group_ends_and_nothing_stays(spec: EngineSpec) -> None:
    async def scenario() -> list[psutil.Process]:
        process = EngineProcess(spec, "two", SECRET)
        await process.launch()
        await asyncio.wait_for(_until_logged(process), LIMIT_SECONDS)
        assert process.pid
        leader = psutil.Process(process.pid)
        family = [leader, *leader.children(recursive=True)]
        assert (spec.run_dir / "engine-two.pid.json").exists()
        await process.end(grace_seconds=0)
        await process.end(grace_seconds=0)
        return family

    family = asyncio.run(scenario())
    assert len(family) > 1
    wait_until_gone(family)
    assert not list(spec.run_dir.iterdir())


async def test_orphans_of_a_dead_gateway_are_killed(spec: EngineSpec) -> None:
    process = EngineProcess(spec, "three", SECRET)
    await process.launch()
    await asyncio.wait_for(_until_logged(process), LIMIT_SECONDS)
    scratch = spec.home / "engines" / "three"
    assert process.socket_path.parent.is_dir()
    assert scratch.is_dir()
    assert clean_orphans(spec.run_dir) == [process.pid]
    assert not process.socket_path.parent.exists(), "it held the engine's secret"
    assert not scratch.exists()
    assert await asyncio.wait_for(process.wait(), LIMIT_SECONDS) == -9
    assert clean_orphans(spec.run_dir) == []
    await process.end(grace_seconds=0)


def test_a_gateway_killed_before_its_engine_ran_leaves_no_secret(
    spec: EngineSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(launch, "spawn", killed)
    process = EngineProcess(spec, "four", SECRET)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(process.launch())
    private = process.socket_path.parent
    assert (private / "start.json").exists()
    assert clean_orphans(spec.run_dir) == []
    assert not private.exists()
    assert not list(spec.run_dir.iterdir())


def test_an_engine_gets_the_heap_that_the_settings_give(
    tmp_path: Path, settings: Any
) -> None:
    settings.SLUICE_HOME = str(tmp_path)
    settings.SLUICE_ENGINE_MEMORY = "123m"
    engine = gateway_command._client(cast(Any, None))
    assert "-Xmx123m" in launch.java_command(engine._spec, tmp_path)


READY = '{"ready": 1, "seconds": 9.1}\n'


def entry(message: str, *, logger: str = "io.sluice.engine.Engine") -> str:
    return json.dumps({"logger": logger, "message": message}) + "\n"


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (READY + entry("engine ends: it is broken"), "it is broken"),
        (entry("engine ends: long ago") + READY + "at work\n", ""),
        (READY + "engine ends: forged\n", ""),
        (READY + entry("engine ends: forged", logger="System.err"), ""),
        (READY + entry("x\nengine ends: forged"), ""),
        ("", ""),
    ],
    ids=["this one", "one before", "no entry", "printed", "in an entry", "nothing"],
)
def test_the_log_tells_why_an_engine_ended_itself(
    log: str, reason: str, spec: EngineSpec
) -> None:
    process = EngineProcess(spec, "five", SECRET)
    process.log_path.parent.mkdir(parents=True)
    process.log_path.write_text(log)
    assert process.end_reason() == reason


def test_what_an_engine_wrote_before_it_ended_is_told_to_nobody(
    spec: EngineSpec, caplog: pytest.LogCaptureFixture
) -> None:
    """Every user is told why there is no engine; its log has statements of others."""
    Path(spec.java).write_text("#!/bin/sh\necho row of another user; exit 1\n")
    engine = SparkEngine(spec, mock.MagicMock(), engine_id="six")
    with pytest.raises(EngineUnavailable) as failed:
        asyncio.run(engine.start())
    assert failed.value.message == "the engine ended while starting"
    assert "another user" not in engine.facts().reason
    assert "row of another user" in caplog.text
