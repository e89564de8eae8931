"""Builds our few Java classes into one jar, by plain `javac`, when they changed."""

from __future__ import annotations

import os
import subprocess
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from config.toolchain.installed import java_program
from config.toolchain.paths import (
    JAVA_SOURCES,
    jar_paths,
    java_files,
    pyspark_home,
    sluice_jar,
)

COMPILE_SECONDS = 300
# It lives for seconds: to compile itself well costs it more than it gains.
BRIEF = ("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC")
EPOCH = (1980, 1, 1, 0, 0, 0)  # the same bytes from the same sources


class CompilationFailed(Exception):
    """javac refused; the text is its output."""


def ensure_sluice_jar(say: Callable[[str], None]) -> Path:
    """The jar of the sources as they are now; compiles only when it is missing."""
    target = sluice_jar()
    if target.exists():
        return target
    say(f"compiling {len(java_files())} Java files")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".javac-") as folder:
        classes = Path(folder) / "classes"
        classes.mkdir()
        if java_files():
            _compile(classes)
        scratch = Path(folder) / target.name
        _pack(classes, scratch)
        scratch.replace(target)
    for old in target.parent.glob("sluice-*.jar"):
        if old != target and _is_old(old, target):
            old.unlink(missing_ok=True)
    return target


def _compile(classes: Path) -> None:
    class_path = os.pathsep.join(
        [str(pyspark_home() / "jars" / "*"), *(str(path) for path in jar_paths())]
    )
    command = [
        *(java_program("javac") or "javac", *BRIEF),
        *("--release", "17", "-encoding", "UTF-8"),
        *("-nowarn", "-proc:none", "-g", "-parameters"),
        *("-cp", class_path, "-d", str(classes)),
        *(str(path) for path in java_files()),
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=COMPILE_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise CompilationFailed(done.stderr.strip() or done.stdout.strip())


def _pack(classes: Path, target: Path) -> None:
    """Classes, and the resources that lie beside the sources (META-INF)."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as jar:
        for path in sorted(path for path in classes.rglob("*") if path.is_file()):
            _add(jar, path, str(path.relative_to(classes)))
        for folder in JAVA_SOURCES:
            for path in sorted(folder.rglob("*")):
                if path.is_file() and path.suffix != ".java":
                    _add(jar, path, str(path.relative_to(folder)))


def _add(jar: zipfile.ZipFile, path: Path, name: str) -> None:
    entry = zipfile.ZipInfo(name, date_time=EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    jar.writestr(entry, path.read_bytes())


def _is_old(old: Path, new: Path) -> bool:
    """A day of grace: a running engine reads classes from the jar it began with."""
    try:
        return new.stat().st_mtime - old.stat().st_mtime > 86_400
    except FileNotFoundError:
        return False
