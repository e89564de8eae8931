"""'What this user needs' at PostgreSQL: statements for an administrator of the source.

Pure text, for people to read and paste; Sluice never runs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def quoted(name: str) -> str:
    """A PostgreSQL identifier, always in quotes."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def statements_for(
    username: str, database: str, schemas: Iterable[str]
) -> tuple[str, ...]:
    """The grants for snapshot and timestamp capture of all tables of `schemas`."""
    connect = f"GRANT CONNECT ON DATABASE {quoted(database)} TO {quoted(username)};"
    return (connect, *read_grants(username, schemas), stats_grant(username))


def read_grants(username: str, schemas: Iterable[str]) -> tuple[str, ...]:
    """Those of them that are of the schemas themselves."""
    user, result = quoted(username), []
    for schema in schemas:
        name = quoted(schema)
        result += [
            f"GRANT USAGE ON SCHEMA {name} TO {user};",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA {name} TO {user};",
            f"ALTER DEFAULT PRIVILEGES IN SCHEMA {name}"
            f" GRANT SELECT ON TABLES TO {user};",
        ]
    return tuple(result)


def stats_grant(username: str) -> str:
    """Lets timestamp capture see when other users' transactions began."""
    return f"GRANT pg_read_all_stats TO {quoted(username)};"


def select_grant(
    username: str, database: str, table: str, columns: Sequence[str] = ()
) -> str:
    """Lets the user read one table, or only these columns of it."""
    which = f" ({', '.join(map(quoted, columns))})" if columns else ""
    name = f"{quoted(database)}.{quoted(table)}"
    return f"GRANT SELECT{which} ON {name} TO {quoted(username)};"


def structure_grant(username: str, database: str, table: str) -> str:
    """Everybody sees the catalog."""
    return ""


def full_rows_logged(database: str, table: str) -> str:
    return f"ALTER TABLE {quoted(database)}.{quoted(table)} REPLICA IDENTITY FULL;"


def full_rows_of_parts_logged(database: str, table: str) -> str:
    name = f"{quoted(database)}.{quoted(table)}".replace("'", "''")
    return (
        "DO $sluice$ DECLARE part regclass; BEGIN FOR part IN SELECT relid FROM"
        f" pg_partition_tree('{name}') WHERE isleaf LOOP EXECUTE"
        " format('ALTER TABLE %s REPLICA IDENTITY FULL', part);"
        " END LOOP; END $sluice$;"
    )


def logged(tables: Sequence[tuple[str, str]]) -> str:
    """For these tables alone: one for all tables would refuse updates of those without
    a key. Its name is of the first, so that a later one is another one."""
    names = ", ".join(f"{quoted(schema)}.{quoted(table)}" for schema, table in tables)
    made = quoted(f"sluice_{tables[0][1]}"[:63])
    return (
        f"CREATE PUBLICATION {made} FOR TABLE {names}"
        " WITH (publish_via_partition_root = true);"
    )


def all_rows_grant(username: str) -> str:
    """A policy for this user that lets all rows pass would be a filter, too."""
    return f"ALTER ROLE {quoted(username)} BYPASSRLS;"


def script(username: str, database: str) -> str:
    """The statements as a commented script, the user's creation in front."""
    return "\n".join(
        (
            "-- Run as an administrator of the source, connected to the database"
            f" {quoted(database)}.",
            f"-- CREATE ROLE {quoted(username)} LOGIN PASSWORD '…';",
            "-- Read access. Default privileges hold for tables that the role running",
            "-- this creates later; repeat that line FOR ROLE of other owners.",
            *statements_for(username, database, ["public"])[:-1],
            "-- Timestamp capture waits for open transactions; without this grant it",
            "-- cannot see those of other users and relies on its safety lag alone.",
            stats_grant(username),
            "-- Log capture, where wal_level is 'logical', receives the log.",
            f"-- ALTER ROLE {quoted(username)} REPLICATION;",
            "",
        )
    )
