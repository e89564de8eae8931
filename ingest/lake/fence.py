"""Fences: the smallest token that may still write to a table, as a file.

Whoever takes a table over raises its fence first; the lock provider in the
writer then refuses every older token. It must not know leases or jobs.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from core.errors import StaleState, TerminalError
from ingest.lake.files import local_path, replace_atomic, storage_error

Scope = Literal["write", "service"]


def fence_path(lake: str, table_id: int, scope: Scope = "write") -> Path:
    """Ingest and table services hold different leases, so each has its fence."""
    suffix = "" if scope == "write" else ".service"
    return local_path(lake) / "_sluice" / "fence" / f"{table_id}{suffix}"


def fence_at(path: Path) -> int:
    """The token that may write now; 0 when nobody was ever let in."""
    try:
        return int(path.read_text("ascii"))
    except FileNotFoundError:
        return 0
    except ValueError as error:
        raise TerminalError(f"the fence file {path} is damaged") from error
    except OSError as error:
        raise storage_error(error, path) from error


def raise_fence(path: Path, token: int) -> None:
    """Lets `token` in and everyone older out; StaleState when it is older itself.

    Raising to the token that is there already is allowed, so it can be repeated.
    """
    with _exclusive(path):
        current = fence_at(path)
        if current > token:
            raise StaleState(
                f"token {token} is superseded: the fence is at {current}",
                code="fenced",
                hint="somebody else took the table over; read its jobs again",
            )
        if current < token:
            replace_atomic(path, f"{token}\n")


def require_fence(path: Path, token: int) -> None:
    """StaleState unless exactly this token may write."""
    current = fence_at(path)
    if current != token:
        raise StaleState(
            f"token {token} may not write: the fence is at {current}",
            code="fenced",
            hint="somebody else took the table over; read its jobs again",
        )


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Two raisers must not interleave their read and their rename."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = (path.parent / ".lock").open("w")
    except OSError as error:
        raise storage_error(error, path) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
