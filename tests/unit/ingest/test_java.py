"""What the JVMs of jobs are started with."""

from __future__ import annotations

import os
import shlex
import subprocess

import pytest

from gateway.engines.launch import JAVA_OPTIONS
from ingest.contract.java import (
    BROADCAST_MB,
    CODE_CACHE_MB,
    PAGE_MB,
    REGION_MB,
    driver_options,
)


def test_buffers_of_spark_are_no_large_objects_of_the_collector() -> None:
    assert max(PAGE_MB, BROADCAST_MB) * 2 < REGION_MB


def test_a_compiler_of_fewer_tiers_leaves_the_code_cache_as_large() -> None:
    """Options of the environment come first on a JVM's command line; the last counts."""
    assert f"-XX:ReservedCodeCacheSize={CODE_CACHE_MB}m" in driver_options("/scratch")
    assert CODE_CACHE_MB >= 240


@pytest.mark.parametrize("options", [driver_options("/scratch"), JAVA_OPTIONS])
def test_a_jvm_at_rest_is_not_woken_for_figures_that_nobody_reads(options: str) -> None:
    assert _wakes_a_second(options) < 5


@pytest.mark.parametrize("options", [driver_options("/scratch"), JAVA_OPTIONS])
def test_a_machine_of_another_language_changes_no_names(options: str) -> None:
    """Hudi finds its own settings by upper case: OPTİMİSTİC_CONCURRENCY_CONTROL."""
    turkish = "-Duser.language=tr -Duser.country=TR"
    command = ["java", *shlex.split(options), "-XshowSettings:locale", "-version"]
    said = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "JDK_JAVA_OPTIONS": turkish},
    )
    assert "default locale = English" in said.stderr


def _wakes_a_second(options: str) -> float:
    """As the JVM itself says; 20 by default."""
    command = ["java", *shlex.split(options), "-version"]
    flags = subprocess.run(
        [command[0], "-XX:+PrintFlagsFinal", *command[1:]],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    values = {
        line.split()[1]: line.split()[3] for line in flags.splitlines() if " = " in line
    }
    is_sampled = values["UsePerfData"] == "true"
    return 1_000 / int(values["PerfDataSamplingInterval"]) if is_sampled else 0.0
