"""'What this user needs' at MariaDB and MySQL: statements for an administrator.

Pure text, for people to read and paste; Sluice never runs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def account(username: str, host: str = "%") -> str:
    """An account as GRANT names it."""
    return f"{_text(username)}@{_text(host)}"


def quoted(name: str) -> str:
    """A name of MariaDB and MySQL, always in back quotes."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def statements_for(who: str, databases: Iterable[str]) -> tuple[str, ...]:
    """The grants for snapshot and timestamp capture of all tables of `databases`."""
    return (*read_grants(who, databases), process_grant(who))


def read_grants(who: str, databases: Iterable[str]) -> tuple[str, ...]:
    """Those of them that are of the databases themselves."""
    return tuple(f"GRANT SELECT ON {_pattern(db)}.* TO {who};" for db in databases)


def process_grant(who: str) -> str:
    """Lets timestamp capture see when other users' transactions began."""
    return f"GRANT PROCESS ON *.* TO {who};"


def select_grant(
    username: str, database: str, table: str, columns: Sequence[str] = ()
) -> str:
    """Lets the user read one table, or only these columns of it."""
    which = f" ({', '.join(map(quoted, columns))})" if columns else ""
    name = f"{quoted(database)}.{quoted(table)}"
    return f"GRANT SELECT{which} ON {name} TO {account(username)};"


def structure_grant(username: str, database: str, table: str) -> str:
    """Any right to the table as a whole shows its columns and indexes; this one lets
    the user read nothing."""
    name = f"{quoted(database)}.{quoted(table)}"
    return f"GRANT REFERENCES ON {name} TO {account(username)};"


def full_rows_logged(database: str, table: str) -> str:
    """A setting of the server says so, for all tables."""
    return ""


def full_rows_of_parts_logged(database: str, table: str) -> str:
    return ""


def logged(tables: Sequence[tuple[str, str]]) -> str:
    """The log has all tables."""
    return ""


def all_rows_grant(username: str) -> str:
    """There is no row security."""
    return ""


def script(username: str, database: str) -> str:
    """The statements as a commented script, the user's creation in front."""
    who = account(username)
    return "\n".join(
        (
            "-- Run as an administrator of the source. '%' lets the user in from any",
            "-- address: put that of this machine if you can.",
            f"-- CREATE USER {who} IDENTIFIED BY '…';",
            "-- Read access, for tables made later, too; one line for each database.",
            *statements_for(who, [database])[:-1],
            "-- Timestamp capture waits for open transactions; without this grant it",
            "-- cannot see those of other users and relies on its safety lag alone.",
            process_grant(who),
            "-- Log capture, with binlog_format = 'ROW', binlog_row_image = 'FULL' and",
            "-- binlog_row_metadata = 'FULL', receives the log.",
            f"-- GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO {who};",
            "-- Optional: shows whether the server is a replica, of which plans else",
            "-- warn. MySQL: REPLICATION CLIENT.",
            f"-- GRANT SLAVE MONITOR ON *.* TO {who};",
            "",
        )
    )


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def _pattern(database: str) -> str:
    """In a grant on a whole database `_` and `%` stand for anything."""
    escaped = database.replace("`", "``")
    for wild in ("_", "%"):
        escaped = escaped.replace(wild, f"\\{wild}")
    return f"`{escaped}`"
