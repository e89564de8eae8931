"""What the clerk of a ledger has to allow."""

from __future__ import annotations

from collections.abc import Sequence


def script(username: str, database: str) -> str:
    return f"LET {username} READ {database}"


def select_grant(
    username: str, database: str, table: str, columns: Sequence[str] = ()
) -> str:
    return f"LET {username} READ {database}/{table}"


def structure_grant(username: str, database: str, table: str) -> str:
    return ""


def all_rows_grant(username: str) -> str:
    return ""
