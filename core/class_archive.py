"""An archive of the classes that every Spark JVM of ours loads, which a JVM maps into
its memory instead of reading and checking them in jars (JEP 350): half of the work of
a start. It belongs to one class path of one machine.

Pure. `config.toolchain.class_lists` writes it, drivers and engines start with it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
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
    would stand on a standard output that is ours."""
    return f'"-XX:SharedArchiveFile={class_archive(jars)}" -Xlog:cds*=off'
