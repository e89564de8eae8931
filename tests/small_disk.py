"""File systems of some megabytes that can be full: tmpfs, which only root may mount."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_BLOCK = 4096


@dataclass(frozen=True, slots=True)
class SmallDisk:
    path: Path

    @contextlib.contextmanager
    def full(self, *, but: int = 0) -> Iterator[None]:
        """So many bytes are free inside; others may write there meanwhile."""
        ballast = self.path / "ballast"
        with ballast.open("wb") as file:
            while not self._takes(file.fileno(), but):
                pass
        try:
            yield
        finally:
            ballast.unlink()

    def _takes(self, file: int, but: int) -> bool:
        free = os.statvfs(self.path).f_bavail * _BLOCK
        try:
            if free > but:
                os.posix_fallocate(file, 0, free - but)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return False
        return True


@contextlib.contextmanager
def small_disk(path: Path, size: str) -> Iterator[SmallDisk]:
    """Mounted over `path`, with the folders that are there now, empty."""
    path.mkdir(parents=True, exist_ok=True)
    folders = [p.relative_to(path) for p in path.rglob("*") if p.is_dir()]
    options = f"size={size}"
    command = ["mount", "-t", "tmpfs", "-o", options, "sluice-test", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    try:
        for folder in folders:
            (path / folder).mkdir(parents=True, exist_ok=True)
        yield SmallDisk(path)
    finally:
        # a file that somebody still has open keeps it until then, unseen
        subprocess.run(["umount", "--lazy", str(path)], check=True, capture_output=True)


@functools.cache
def may_mount() -> bool:
    """Root of a machine may, root of most containers may not."""
    if os.geteuid() != 0:
        return False
    with tempfile.TemporaryDirectory() as folder:
        try:
            with small_disk(Path(folder), "1m"):
                return True
        except (OSError, subprocess.CalledProcessError):
            return False
