"""What a JVM unpacks beside itself: files that a killed one cannot delete."""

from __future__ import annotations

import re
from pathlib import Path

_NATIVE = re.compile(r"(lz4|zstd|snappy)[^/]*\.so$")


def mapped(pid: int) -> set[Path]:
    """Files that the process has in its memory."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {Path(line.split(maxsplit=5)[5]) for line in lines if line.count("/")}


def written_to(pid: int, path: Path) -> int:
    """KiB of a mapped file that the process holds changed, in memory of its own."""
    kib, is_of_it = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if line.startswith("Private_Dirty:"):
            kib += int(line.split()[1]) if is_of_it else 0
        elif "-" in line.split()[0]:
            is_of_it = line.endswith(str(path))
    return kib


def unpacked_libraries(pid: int) -> set[Path]:
    """Native libraries that the process took out of its jars and has loaded."""
    return {path for path in mapped(pid) if _NATIVE.search(str(path))}
