"""What a JVM unpacks beside itself: files that a killed one cannot delete."""

from __future__ import annotations

import re
from pathlib import Path

_NATIVE = re.compile(r"(lz4|zstd|snappy)[^/]*\.so$")


def unpacked_libraries(pid: int) -> set[Path]:
    """Native libraries that the process took out of its jars and has loaded."""
    mapped = Path(f"/proc/{pid}/maps").read_text().splitlines()
    paths = {line.split(maxsplit=5)[5] for line in mapped if line.count("/")}
    return {Path(path) for path in paths if _NATIVE.search(path)}
