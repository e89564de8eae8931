"""Tables of a source that cannot be synced: why, and what would change that. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.discovery.store import (
    HIDES_ROWS,
    NO_PRIVILEGE,
    UNSUPPORTED,
    VANISHED,
)
from catalog.sources.mariadb import privileges as mariadb_needs
from catalog.sources.postgresql import privileges as needs

_MARIADB = frozenset({"mariadb", "mysql"})


@dataclass(frozen=True, slots=True)
class Uncarried:
    """name  `database.table`. way_out  a sentence on what would change it"""

    name: str
    reason: str
    way_out: str


def uncarried(
    database: str, table: str, *, status: str, reason: str, login: tuple[str, str]
) -> Uncarried:
    """Of a table whose status is one of NOT_TO_CARRY; login: kind and user name."""
    ways = {
        NO_PRIVILEGE: f"{_grant(database, table, *login)} and discover again",
        UNSUPPORTED: "carry the tables behind it, and make it anew in SQL of the lake",
        VANISHED: "discover the source again, if it is back",
    }
    way_out = _see_all(login[1]) if reason == HIDES_ROWS else ways[status]
    return Uncarried(f"{database}.{table}", reason, way_out)


def _see_all(username: str) -> str:
    """A policy for this user that lets all rows pass would be a filter, too."""
    return (
        f"run ALTER ROLE {needs.quoted(username)} BYPASSRLS; and discover again; of a"
        " table that holds some rows only, sync a copy"
    )


def _grant(database: str, table: str, kind: str, username: str) -> str:
    quoted, user = needs.quoted, needs.quoted(username)
    if kind in _MARIADB:
        quoted, user = mariadb_needs.quoted, mariadb_needs.account(username)
    return f"run GRANT SELECT ON {quoted(database)}.{quoted(table)} TO {user};"
