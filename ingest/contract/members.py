"""Values stored as JSON by one release and read by another.

A member that this release does not know is ignored: a newer release added it, and what
it adds may be left out. A version number above the one that is read means that the
known members mean something else: such a value is refused. Pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def known_members(kind: type[Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """The members of `data` that the dataclass `kind` has."""
    names = {field.name for field in dataclasses.fields(kind)}
    return {name: value for name, value in data.items() if name in names}


def value_of(kind: type[T], data: Mapping[str, Any]) -> T:
    """A `kind` from its known members; TypeError when a required one is missing."""
    return kind(**known_members(kind, data))


def version_of(data: Mapping[str, Any]) -> int:
    """The version number of a value. ValueError when that is not a whole number above
    0."""
    version = data.get("v")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ValueError(f"its version is {version!r}")
    return version
