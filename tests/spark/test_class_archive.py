"""Drivers (see test_driver) and engines start with the archive that the set-up makes,
and without it when it is of no use to them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from config.toolchain.installed import java_program
from core.class_archive import class_archive, shared_classes
from gateway.engines.launch import SPARK_OPTIONS
from tests.spark.engine_bench import EngineBench
from tests.spark.left_behind import mapped, written_to


def test_an_engine_starts_with_it(
    bench: EngineBench, engine_jars: tuple[Path, ...]
) -> None:
    archive = class_archive([str(jar) for jar in engine_jars])
    assert archive.exists(), "make setup writes it"
    assert archive.resolve() in mapped(bench.java_pid)


def test_most_of_it_is_shared_by_all_engines(
    bench: EngineBench, engine_jars: tuple[Path, ...]
) -> None:
    archive = class_archive([str(jar) for jar in engine_jars]).resolve()
    of_its_own = written_to(bench.java_pid, archive)
    assert of_its_own * 1024 < archive.stat().st_size / 2


def test_an_engine_opens_the_packages_that_spark_wants_open(spark: Any) -> None:
    options = spark._jvm.org.apache.spark.launcher.JavaModuleOptions
    assert SPARK_OPTIONS.split() == options.defaultModuleOptions().split()


@pytest.mark.parametrize("content", [None, b"", b"of another Java" * 9000])
def test_a_jvm_that_cannot_use_it_starts_without_a_word(
    tmp_path: Path, content: bytes | None
) -> None:
    jars = [str(tmp_path / "own.jar"), str(tmp_path / "other.jar")]
    archive = class_archive(jars)
    assert archive.parent == tmp_path
    assert archive != class_archive(jars[:1])
    if content is not None:
        archive.write_bytes(content)
    options = [option.strip('"') for option in shared_classes(jars).split()]
    done = subprocess.run(
        [java_program("java") or "java", *options, "-cp", jars[0], "-version"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env={},
    )
    assert done.stdout == ""
    assert [line for line in done.stderr.splitlines() if "cds" in line.lower()] == []
