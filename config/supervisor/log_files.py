"""Logs below a home stay small, whoever makes their processes write: anybody who can
reach the web process does, by each request."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

MOST_BYTES: Final = 64 * 2**20
# Each engine has a log of its own.
ENGINES_KEPT: Final = 50


def bound_logs(folder: Path) -> None:
    """Begin large logs anew, with what was in them beside as `.log.1`; of engines the
    newest logs stay. Their processes append, so they go on at the new beginning."""
    for path in folder.glob("*.log"):
        if path.stat().st_size > MOST_BYTES:
            shutil.copy(path, path.with_suffix(".log.1"))
            os.truncate(path, 0)
    engines = sorted(folder.glob("engine-*.log*"), key=lambda one: one.stat().st_mtime)
    for path in engines[:-ENGINES_KEPT]:
        path.unlink(missing_ok=True)
