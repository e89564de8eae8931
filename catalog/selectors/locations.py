"""What an engine needs to know of tables: of the lake, and of live sources. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LakeLocation:
    """Where a lake table's data lies, and which version its columns have."""

    path: str
    schema_version: int


@dataclass(frozen=True, slots=True)
class LiveTable:
    """table   what an engine needs to know of it
    access  how it is reached, with the password; None for who may only see it
    source, version  of `live_versions`
    """

    table: Mapping[str, object]
    access: Mapping[str, object] | None = field(repr=False)
    source: str = ""
    version: str = ""
