"""The lake on a file system: files whole or absent, durable before anyone is told.

It must not know what the files mean.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from core.errors import InvalidRequest, TerminalError, TransientError
from ingest.lake.port import Change, StoredFile, folder_order

_SPARE_BYTES = 1 << 20
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def local_path(uri: str) -> Path:
    """The path behind `file:///…` or a plain absolute path."""
    text = uri.removeprefix("file://") if uri.startswith("file:///") else uri
    if "://" in text or not text.startswith("/"):
        raise InvalidRequest(
            "'%(uri)s' is not a lake of this release",
            uri=uri,
            code="unsupported_lake",
            hint="give an absolute path, or s3://bucket/prefix",
        )
    return Path(text)


@dataclass(frozen=True, slots=True)
class LocalPlace:
    """See `Place`. Its address is the plain path."""

    path: Path

    @property
    def uri(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        return self.path.name

    def __str__(self) -> str:
        return self.uri

    def __truediv__(self, name: str) -> LocalPlace:
        return LocalPlace(self.path / name)

    def read(self) -> bytes | None:
        with _in_words(self.path), suppress(FileNotFoundError, NotADirectoryError):
            return self.path.read_bytes()
        return None

    def read_part(self, start: int, size: int) -> bytes | None:
        gone = suppress(FileNotFoundError, NotADirectoryError)
        with _in_words(self.path), gone, self.path.open("rb") as file:
            if start < 0:
                start = max(0, file.seek(0, os.SEEK_END) + start)
            file.seek(start)
            return file.read(size)
        return None

    def replace(self, text: str) -> None:
        scratch = _written_aside(self.path, text)
        try:
            scratch.replace(self.path)
            _sync_directory(self.path.parent)
        except OSError as error:
            scratch.unlink(missing_ok=True)
            raise storage_error(error, self.path) from error

    def create(self, content: str | bytes) -> bool:
        """Leaves room for `replace`: what lets go of files, says so in one first."""
        free = self.free_bytes()
        if free is not None and free < len(content) + _SPARE_BYTES:
            raise storage_error(OSError(errno.ENOSPC, ""), self.path)
        scratch = _written_aside(self.path, content)
        try:
            os.link(scratch, self.path)
            _sync_directory(self.path.parent)
        except FileExistsError:
            return False
        except OSError as error:
            raise storage_error(error, self.path) from error
        finally:
            scratch.unlink(missing_ok=True)
        return True

    def update(self, change: Change) -> None:
        with _exclusive(self.path):
            found = self.read()
            wanted = change(None if found is None else found.decode())
            if wanted is not None:
                self.replace(wanted)

    def names(self) -> list[str]:
        with _in_words(self.path), suppress(FileNotFoundError):
            return os.listdir(self.path)  # noqa: PTH208 - names, not paths
        return []

    def files(self, *, leave_out: str = "", start: str = "") -> Iterator[StoredFile]:
        with _in_words(self.path):
            for path in self._paths(leave_out, folder_order(start)):
                with suppress(FileNotFoundError):
                    relative = path.relative_to(self.path).as_posix()
                    yield StoredFile(relative, path.lstat().st_size)

    def exists(self) -> bool:
        return self.path.exists()

    def delete(self) -> None:
        with _in_words(self.path):
            self.path.unlink(missing_ok=True)

    def delete_all(self) -> None:
        with _in_words(self.path), suppress(FileNotFoundError):
            try:
                shutil.rmtree(self.path)
            except NotADirectoryError:
                self.path.unlink()

    def delete_page(self, seconds: float) -> tuple[int, bool]:
        until = time.monotonic() + seconds
        deleted = 0
        with _in_words(self.path):
            for path in self._paths():
                path.unlink(missing_ok=True)
                deleted += 1
                if time.monotonic() > until:
                    return deleted, False
        self.delete_all()
        return deleted, not self.path.exists()

    def free_bytes(self) -> int | None:
        """Of the nearest parent that exists."""
        path = self.path
        while not path.exists() and path != path.parent:
            path = path.parent
        try:
            return shutil.disk_usage(path).free
        except OSError:
            return None

    def _paths(self, leave_out: str = "", start: str = "") -> Iterator[Path]:
        """start: in `folder_order`."""
        for folder, folders, names in os.walk(self.path, onerror=_unless_gone):
            here = folder_order(folder[len(self.uri) :].lstrip("/"))
            if leave_out in folders and not here:
                folders.remove(leave_out)
            folders[:] = (
                name
                for name in sorted(folders, key=folder_order)
                if f"{here}{name}/" >= start or start.startswith(f"{here}{name}/")
            )
            for name in names if here >= start else ():
                yield Path(folder) / name


def _unless_gone(error: OSError) -> None:
    if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
        raise error


@contextmanager
def _in_words(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise storage_error(error, path) from error


def storage_error(error: OSError, path: Path) -> TransientError | TerminalError:
    """An OSError of the lake's storage in words, with what to do about it."""
    if error.errno in _FULL:
        return TransientError(
            "the lake's storage is full while writing %(name)s",
            folder=path.parent,
            name=path.name,
            code="storage_full",
            hint="free space on the file system of %(folder)s; then retry",
        )
    if error.errno in _DENIED:
        return TerminalError(
            "the lake is not writable at %(folder)s: %(why)s",
            folder=path.parent,
            why=error.strerror,
            code="lake_not_writable",
            hint="give the user that runs Sluice write access there; then retry",
        )
    return TransientError(
        "the lake's storage failed at %(name)s: %(why)s",
        name=path.name,
        why=error.strerror or error,
        code="storage_failed",
    )


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Two of one folder must not interleave their read and their rename."""
    with _in_words(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = (path.parent / ".lock").open("w")
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _written_aside(path: Path, content: str | bytes) -> Path:
    scratch = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with scratch.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
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
