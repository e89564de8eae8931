"""Atomic files: whole or absent, durable before anyone is told.

Local file systems only; another storage gets its own module with the same
functions. It must not know what the files mean.
"""

from __future__ import annotations

import errno
import os
import uuid
from pathlib import Path

from core.errors import InvalidRequest, TerminalError, TransientError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def local_path(uri: str) -> Path:
    """The path behind `file:///…` or a plain absolute path."""
    text = uri.removeprefix("file://") if uri.startswith("file:///") else uri
    if "://" in text or not text.startswith("/"):
        raise InvalidRequest(
            f"'{uri}' is not a local lake",
            code="unsupported_lake",
            hint="this release keeps the lake on a file system: give an absolute path",
        )
    return Path(text)


def replace_atomic(path: Path, text: str) -> None:
    """Readers see the old text or the new one; durable when this returns."""
    scratch = _written_aside(path, text)
    try:
        scratch.replace(path)
        _sync_directory(path.parent)
    except OSError as error:
        scratch.unlink(missing_ok=True)
        raise storage_error(error, path) from error


def create_if_absent(path: Path, text: str) -> bool:
    """True when this call created it; False when it was there (left as it is)."""
    scratch = _written_aside(path, text)
    try:
        os.link(scratch, path)
        _sync_directory(path.parent)
    except FileExistsError:
        return False
    except OSError as error:
        raise storage_error(error, path) from error
    finally:
        scratch.unlink(missing_ok=True)
    return True


def storage_error(error: OSError, path: Path) -> TransientError | TerminalError:
    """An OSError of the lake's storage in words, with what to do about it."""
    if error.errno in _FULL:
        return TransientError(
            f"the lake's storage is full while writing {path.name}",
            code="storage_full",
            hint=f"free space on the file system of {path.parent}; then retry",
        )
    if error.errno in _DENIED:
        return TerminalError(
            f"the lake is not writable at {path.parent}: {error.strerror}",
            code="lake_not_writable",
            hint="give the user that runs Sluice write access there; then retry",
        )
    return TransientError(
        f"the lake's storage failed at {path.name}: {error.strerror or error}",
        code="storage_failed",
    )


def _written_aside(path: Path, text: str) -> Path:
    scratch = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with scratch.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        scratch.unlink(missing_ok=True)
        raise storage_error(error, path) from error
    return scratch


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
