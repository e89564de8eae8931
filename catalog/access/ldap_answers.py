"""What a directory may answer, without the library that asks it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from core.errors import TerminalError, TransientError


class DirectoryAway(TransientError):
    """The directory gave no definite answer; nothing was decided."""

    default_code: ClassVar[str] = "directory_unavailable"


class DirectoryUnreachable(DirectoryAway):
    """No server answered at all, or none in time."""


class DirectoryMisconfigured(TerminalError):
    """The directory answered, but not to what the settings ask."""

    default_code: ClassVar[str] = "directory_misconfigured"


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """Somebody's entry. `subject` is its immutable id, `name` as it is there.

    password_mark  when the password was set, in the server's form; "" = it does not say
    """

    dn: str
    subject: str
    name: str
    is_disabled: bool = False
    password_mark: str = ""
