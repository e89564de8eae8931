"""Kinds of source that share one way with types, SQL and locks. Pure."""

from __future__ import annotations

from typing import Literal

from core.errors import InvalidRequest

Family = Literal["postgresql", "mariadb"]

_FAMILIES: dict[str, Family] = {
    "postgresql": "postgresql",
    "mariadb": "mariadb",
    "mysql": "mariadb",
}


def family_of(kind: str) -> Family:
    """InvalidRequest `not_yet` for a kind that nothing here reads: a guess would carry
    its values by another one's rules."""
    found = _FAMILIES.get(kind)
    if found is None:
        raise InvalidRequest(
            f"sources of kind '{kind}' cannot be read yet", code="not_yet"
        )
    return found
