"""A lake in memory, for tests that end a process between any two file operations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ingest.lake.port import Change, Place, StoredFile


class Killed(BaseException):
    """The process ended here: no `except` of the code under test sees it."""


@dataclass
class MemoryStore:
    """Files by path. left: how many changes the process makes before it is killed."""

    files: dict[str, str] = field(default_factory=dict)
    left: int | None = None

    def change(self) -> None:
        """Called before each change to one file."""
        if self.left is None:
            return
        if not self.left:
            raise Killed
        self.left -= 1

    def at(self, uri: str) -> Place:
        return MemoryPlace(self, uri)


@dataclass(frozen=True)
class MemoryPlace:
    store: MemoryStore
    path: str

    @property
    def uri(self) -> str:
        return self.path

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    def __truediv__(self, name: str) -> Place:
        return MemoryPlace(self.store, f"{self.path}/{name}")

    def read(self) -> bytes | None:
        found = self.store.files.get(self.path)
        return None if found is None else found.encode()

    def read_part(self, start: int, size: int) -> bytes | None:
        found = self.read()
        if found is None:
            return None
        start = max(0, len(found) + start) if start < 0 else start
        return found[start : start + size]

    def replace(self, text: str) -> None:
        self.store.change()
        self.store.files[self.path] = text

    def create(self, content: str | bytes) -> bool:
        self.store.change()
        text = content if isinstance(content, str) else content.decode()
        return self.store.files.setdefault(self.path, text) is text

    def update(self, change: Change) -> None:
        self.store.change()
        if (after := change(self.store.files.get(self.path))) is not None:
            self.store.files[self.path] = after

    def names(self) -> list[str]:
        return list({path.partition("/")[0] for path, _ in self._below()})

    def files(self, *, leave_out: str = "", start: str = "") -> Iterator[StoredFile]:
        assert not start, "nothing that runs on this one asks for it"
        for path, text in self._below():
            if not leave_out or path.partition("/")[0] != leave_out:
                yield StoredFile(path, len(text))

    def exists(self) -> bool:
        return self.path in self.store.files or bool(self._below())

    def delete(self) -> None:
        self.store.change()
        self.store.files.pop(self.path, None)

    def delete_all(self) -> None:
        for path in [self.path, *(f"{self.path}/{path}" for path, _ in self._below())]:
            if path in self.store.files:
                self.store.change()
                del self.store.files[path]

    def delete_page(self, seconds: float) -> tuple[int, bool]:
        count = len(self._below())
        self.delete_all()
        return count, True

    def free_bytes(self) -> int | None:
        return None

    def _below(self) -> list[tuple[str, str]]:
        prefix = f"{self.path}/"
        found = self.store.files.items()
        return [(p.removeprefix(prefix), t) for p, t in found if p.startswith(prefix)]
