"""A driver whose clock is ahead, for real commits of Hudi in the future."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from config.toolchain.javac import BRIEF
from config.toolchain.paths import spark_classpath
from ingest.driver.apply import apply, writer

_SOURCE = Path(__file__).with_name("FastClock.java")
_GENERATORS = "org.apache.hudi.common.table.timeline.TimeGenerators"


@contextmanager
def fast_clock(spark: Any, path: str, ahead: timedelta, built: Path) -> Iterator[None]:
    """Hudi reads a clock that is `ahead` for instants of the table at `path`."""
    patch = pytest.MonkeyPatch()
    for module, name in ((writer, "write_options"), (apply, "service_options")):
        patch.setattr(module, name, _reusing(getattr(module, name)))
    subprocess.run(
        ["javac", *BRIEF, "-cp", spark_classpath(), "-d", str(built), str(_SOURCE)],
        check=True,
        timeout=120,
    )
    jvm = spark._jvm
    generators = jvm.java.lang.Class.forName(_GENERATORS)
    field = generators.getDeclaredField("TIME_GENERATOR_CACHE")
    field.setAccessible(True)
    cache = field.get(None)
    address = jvm.java.io.File(str(built)).toURI().toURL()
    urls = spark.sparkContext._gateway.new_array(jvm.java.net.URL, 1)
    urls[0] = address
    loader = jvm.java.net.URLClassLoader(urls, generators.getClassLoader())
    maker = loader.loadClass("FastClock").getConstructors()[0]
    values = spark.sparkContext._gateway.new_array(jvm.java.lang.Object, 1)
    values[0] = jvm.java.lang.Long.valueOf(int(ahead.total_seconds() * 1000))
    # the cache holds its values weakly: this name keeps the clock
    clock = maker.newInstance(values)
    for key in (path, f"file:{path}", f"file://{path}"):
        cache.put(key, clock)
    try:
        yield
    finally:
        patch.undo()
        for key in (path, f"file:{path}", f"file://{path}"):
            cache.invalidate(key)


def _reusing(options: Any) -> Any:
    """Hudi asks the clock that is there; else it makes one each time."""

    def made(*values: Any, **named: Any) -> dict[str, str]:
        return {
            **options(*values, **named),
            "_hoodie.time.generator.reuse.enable": "true",
        }

    return made
