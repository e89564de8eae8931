"""What a JVM unpacks beside itself: files that a killed one cannot delete."""

from __future__ import annotations

import re
from pathlib import Path

_NATIVE = re.compile(r"(lz4|zstd|snappy)[^/]*\.so$")


def mapped(pid: int) -> set[Path]:
    """Files that the process has in its memory."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {Path(line.split(maxsplit=5)[5]) for line in lines if line.count("/")}


def unpacked_libraries(pid: int) -> set[Path]:
    """Native libraries that the process took out of its jars and has loaded."""
    return {path for path in mapped(pid) if _NATIVE.search(str(path))}
