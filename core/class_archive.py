"""An archive of the classes that every Spark JVM of ours loads, which a JVM maps into
its memory instead of reading and checking them in jars (JEP 350): half of the work of
a start. It belongs to one class path of one machine.

Pure. `config.toolchain.class_lists` writes it, drivers and engines start with it.
"""

from __future__ import annotations

import argparse
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


def class_archive(jars: Sequence[str]) -> Path:
    """Where it lies: beside our own jar, which comes first on the class path."""
    digest = hashlib.sha256(os.pathsep.join(jars).encode()).hexdigest()
    return Path(jars[0]).with_suffix(f".{digest[:12]}.jsa")


def class_path(jars: Sequence[str], spark: Path) -> str:
    """Of drivers and of engines: that of the archive. `spark`: where pyspark lies."""
    return os.pathsep.join([*jars, f"{spark}/conf", f"{spark}/jars/*"])


def shared_classes(jars: Sequence[str]) -> str:
    """JVM options that use it. A JVM that finds none there, or one that was made by
    another Java or of other jars, starts without and says nothing of it: its words
    would stand on a standard output that is ours.

    It is mapped at the address it was made for. Elsewhere, where JVMs put it by
    themselves, each address in it is written anew: before anything else, into a copy
    that no other JVM shares."""
    return (
        f'"-XX:SharedArchiveFile={class_archive(jars)}" -Xlog:cds*=off '
        "-XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"
    )


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """How a driver or an engine is run once to note which classes it loads.

    lake  the folder of its one table `t`
    """

    jars: tuple[str, ...]
    classes: str
    lake: str

    @property
    def java_option(self) -> str:
        """By which its JVM notes them."""
        return f"-XX:DumpLoadedClassList={self.classes}"


def rehearsal_of(arguments: Sequence[str] | None, *, about: str) -> Rehearsal:
    """By a command line; None = that of this process."""
    parser = argparse.ArgumentParser(description=about)
    for name in ("--jars", "--classes", "--lake"):
        parser.add_argument(name, required=True)
    given = parser.parse_args(arguments)
    return Rehearsal(tuple(given.jars.split(os.pathsep)), given.classes, given.lake)
