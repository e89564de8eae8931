"""Writes the archive of classes that drivers and engines start with: each is rehearsed
once and notes what its JVM loads, and a third JVM archives what is in either list.

Nothing needs it: a start without takes longer. Called by the set-up.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from config.toolchain.installed import java_program
from config.toolchain.paths import ROOT, pyspark_home
from core.class_archive import class_archive, class_path

REHEARSALS = ("ingest.driver.rehearsal", "gateway.engines.rehearsal")
SECONDS = 900


class NotArchived(Exception):
    """The text says what failed."""


def archive_classes(python: Path, jars: Sequence[str]) -> None:
    """Write it for the class path of these jars; those of other jars of ours go."""
    target = class_archive(jars)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".jsa-") as folder:
        lists = [Path(folder) / name for name in REHEARSALS]
        for name, classes in zip(REHEARSALS, lists, strict=True):
            given = ["--jars", os.pathsep.join(jars), "--lake", folder]
            _run([str(python), "-m", name, *given, "--classes", str(classes)])
        merged = Path(folder) / "classes"
        # a line that its JVM did not write whole would end the third one
        lines = [line for one in lists for line in one.read_text().split("\n")[:-1]]
        merged.write_text("\n".join(dict.fromkeys(lines)) + "\n")
        scratch = Path(folder) / target.name
        _run(
            [
                java_program("java") or "java",
                *("-Xshare:dump", "-Xlog:cds*=off", "-XX:+UseG1GC", "-Xmx1g"),
                f"-XX:SharedClassListFile={merged}",
                f"-XX:SharedArchiveFile={scratch}",
                *("-cp", class_path(jars, pyspark_home().resolve())),
            ]
        )
        scratch.replace(target)
    for old in target.parent.glob("sluice-*.jsa"):
        if old != target:
            old.unlink(missing_ok=True)


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotArchived(f"it took longer than {SECONDS} s") from None
    if done.returncode:
        raise NotArchived((done.stderr or done.stdout)[-400:])
