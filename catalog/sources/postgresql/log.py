"""What decides whether PostgreSQL's log can be followed: the server, the login and each
table. Statements of catalogs only; nothing here reads the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from catalog.schema.source_log import Lack, TableLog
from catalog.sources.postgresql.columns import IDENTITY, LESSER_PARTS, OLDER
from catalog.sources.postgresql.privileges import quoted
from core.sentences import Sentence

# rds_replication: there nobody but the provider may give the attribute.
SERVER = r"""
SELECT pg_is_in_recovery(), current_setting('wal_level'),
       r.rolreplication OR r.rolsuper OR coalesce((
           SELECT pg_has_role(current_user, p.oid, 'USAGE')
           FROM pg_catalog.pg_roles p WHERE p.rolname = 'rds_replication'), false),
       EXISTS (SELECT FROM pg_catalog.pg_roles p WHERE p.rolname = 'rds_replication'),
       has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE'),
       EXISTS (SELECT FROM pg_catalog.pg_replication_slots s
               WHERE s.database = current_database() AND s.slot_name LIKE 'sluice\_%%'),
       current_setting('max_replication_slots')::int
           - (SELECT count(*) FROM pg_catalog.pg_replication_slots),
       current_setting('max_wal_senders')::int
           - (SELECT count(*) FROM pg_catalog.pg_stat_replication)
FROM pg_catalog.pg_roles r WHERE r.rolname = current_user
"""
# The second came with PostgreSQL 18.
KEEPING = (
    "SELECT current_setting('fsync'),"
    " coalesce(current_setting('idle_replication_slot_timeout', true), '0')"
)
# Of the tables in oids. Row filters came with PostgreSQL 15.
TABLES = f"""
SELECT c.oid, c.relreplident = 'f', {IDENTITY},
  ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = c.oid AND a.attgenerated <> '' AND NOT a.attisdropped
        ORDER BY a.attnum),
  EXISTS (
    SELECT FROM pg_catalog.pg_publication_tables t
    JOIN pg_catalog.pg_publication p USING (pubname)
    WHERE t.schemaname = n.nspname AND t.tablename = c.relname
    AND p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate
    AND to_jsonb(t) ->> 'rowfilter' IS NULL),
  pg_has_role(c.relowner, 'USAGE')
    AND has_database_privilege(current_database(), 'CREATE'),
  {LESSER_PARTS},
  {OLDER}
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = ANY(%(oids)s)
"""


def lacks_of(row: tuple[Any, ...], username: str) -> Iterator[Lack]:
    """What the server and the login lack, by a row of SERVER."""
    (
        is_standby,
        wal_level,
        may_replicate,
        has_grant,
        may_identify,
        has_slot,
        slots,
        senders,
    ) = row
    if is_standby:
        yield Lack("the server is a standby: follow the log of its primary")
        return
    user = quoted(username)
    if wal_level != "logical":
        yield Lack(
            Sentence(
                "wal_level is '%(level)s', and only 'logical' tells of rows",
                level=wal_level,
            ),
            "ALTER SYSTEM SET wal_level = logical; /* then restart the server */",
        )
    if not may_replicate:
        mends = f"GRANT rds_replication TO {user};" if has_grant else ""
        yield Lack(
            "the datasource's user may not receive the log",
            mends or f"ALTER ROLE {user} REPLICATION;",
        )
    if not may_identify:
        yield Lack(
            "the datasource's user may not ask which server it is",
            f"GRANT EXECUTE ON FUNCTION pg_control_system() TO {user};",
        )
    # the slot of a source that is followed is one of those in use
    if not has_slot and slots < 1:
        yield _used_up("max_replication_slots", Sentence("replication slots"))
    if not has_slot and senders < 1:
        yield _used_up("max_wal_senders", Sentence("WAL senders"))


def doubts_of(fsync: str, idle: str) -> tuple[Sentence, ...]:
    """Behind what every table that is followed needs a resync, in sentences.

    idle  after how long the server gives up the slot of who does not read; "0" = never
    """
    doubts: list[Sentence] = []
    if fsync != "on":
        doubts.append(
            Sentence(
                "fsync is off: a power failure may take the end of a log that was read,"
                " and all followed tables need a resync then; once the log has grown"
                " beyond that place, it is not always seen: ALTER SYSTEM SET fsync ="
                " on; SELECT pg_reload_conf();"
            )
        )
    if idle != "0":
        doubts.append(
            Sentence(
                "idle_replication_slot_timeout is %(time)s: if the follower stops for"
                " so long, the server drops the log, and all followed tables need a"
                " resync: ALTER SYSTEM SET idle_replication_slot_timeout = 0; SELECT"
                " pg_reload_conf();",
                time=idle,
            )
        )
    return tuple(doubts)


def _used_up(setting: str, what: Sentence) -> Lack:
    return Lack(
        Sentence("all %(what)s are in use", what=what),
        f"ALTER SYSTEM SET {setting} = 20; /* then restart the server */",
    )


def table_logs(rows: Iterable[tuple[Any, ...]]) -> dict[int, TableLog]:
    """By oid, of rows of TABLES."""
    return {
        oid: TableLog(
            bool(is_full),
            tuple(key),
            tuple(made),
            bool(has),
            bool(may),
            tuple(lesser),
            tells_older=True,
            older=dict(zip(names, values, strict=True)),
            untold=tuple(untold),
        )
        for oid, is_full, key, made, has, may, lesser, names, values, untold in rows
    }
