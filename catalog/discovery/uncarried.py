"""Tables of a source that cannot be synced: why, and what would change that. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.discovery.store import (
    HIDES_ROWS,
    NO_PRIVILEGE,
    UNSUPPORTED,
    VANISHED,
)
from catalog.sources.registry import kind_named


@dataclass(frozen=True, slots=True)
class Uncarried:
    """name  `database.table`. way_out  a sentence on what would change it"""

    name: str
    reason: str
    way_out: str


def uncarried(
    database: str, table: str, *, status: str, reason: str, login: tuple[str, str]
) -> Uncarried:
    """Of a table whose status is one of NOT_SYNCED; login: kind and user name."""
    kind, username = login
    grant = kind_named(kind).privileges.select_grant(username, database, table)
    ways = {
        NO_PRIVILEGE: f"run {grant} and discover again",
        UNSUPPORTED: "sync the tables behind it, and define it again in the lake",
        VANISHED: "discover the source again, if it is back",
    }
    way_out = _see_all(kind, username) if reason == HIDES_ROWS else ways[status]
    return Uncarried(f"{database}.{table}", reason, way_out)


def _see_all(kind: str, username: str) -> str:
    statement = kind_named(kind).privileges.all_rows_grant(username)
    return (
        f"run {statement} and discover again; of a"
        " table that holds some rows only, sync a copy"
    )
