"""What a lake's storage can do, whatever it is made of.

Every way to change a file is whole or nothing and durable when it returns. It must
not know what the files mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

# From what is there (None = nothing) to what shall be; None = leave it.
Change = Callable[[str | None], str | None]


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file somewhere below a place. path: relative to that place."""

    path: str
    size: int


class Place(Protocol):
    """A file or a folder of the lake; folders come and go with their files."""

    @property
    def uri(self) -> str:
        """As the catalog and Spark name it."""

    @property
    def name(self) -> str: ...

    def __truediv__(self, name: str) -> Place: ...

    def read(self) -> bytes | None:
        """The whole file; None when there is none."""

    def replace(self, text: str) -> None:
        """Readers see the old text or the new one."""

    def read_part(self, start: int, size: int) -> bytes | None:
        """At most `size` bytes from `start` on, which counts from the end when it is
        below 0 (a shorter file comes whole); None when there is no file."""

    def create(self, content: str | bytes) -> bool:
        """True when this call made it; False when it was there (left as it is)."""

    def update(self, change: Change) -> None:
        """Replaces the text by `change` of it, with nobody else's in between.
        `change` may be asked more than once, and may raise."""

    def names(self) -> list[str]:
        """Names directly below, in no order; [] when nothing is there."""

    def files(self, *, leave_out: str = "", start: str = "") -> Iterator[StoredFile]:
        """Every file below, links not followed; nothing when nothing is there. A file
        that goes meanwhile may be told or not. `leave_out`: a folder directly below.
        They come while folders are read, these in `folder_order`, from `start` on."""

    def exists(self) -> bool:
        """Whether a file is there, or anything below."""

    def delete(self) -> None:
        """This one file; nothing happens when it is absent."""

    def delete_all(self) -> None:
        """This place and everything below it."""

    def delete_page(self, seconds: float) -> tuple[int, bool]:
        """Deletes below for about so long: (files deleted, whether all is gone)."""

    def free_bytes(self) -> int | None:
        """Space left there; None where it has no bound."""


def folder_order(path: str) -> str:
    """Sorts folders as an object store lists what lies in them; "" comes first."""
    return f"{path}/" if path else ""


def bytes_below(place: Place) -> int:
    return sum(file.size for file in place.files())
