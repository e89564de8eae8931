"""What decides whether MariaDB's binary log can be followed: the server, the login and
each table. Pure; what is asked for that is beside each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.schema.source_log import Lack, TableLog
from catalog.sources.mariadb.clusters import membership_of
from catalog.sources.mariadb.older import Older
from core.sentences import Sentence

Rows = Callable[[str], list[tuple[Any, ...]]]

SETTINGS = """
SHOW GLOBAL VARIABLES WHERE Variable_name IN
  ('version', 'log_bin', 'binlog_format', 'binlog_row_image', 'binlog_row_metadata',
   'log_slave_updates', 'server_id', 'server_uid', 'binlog_expire_logs_seconds',
   'expire_logs_days', 'lower_case_table_names', 'sync_binlog',
   'innodb_flush_log_at_trx_commit')
"""
PLACE = "SHOW MASTER STATUS"
GRANTS = "SHOW GRANTS"
# Of others a login sees them that may read the database mysql.
CHANGERS = """
SELECT DISTINCT grantee FROM information_schema.user_privileges
WHERE privilege_type IN ('BINLOG ADMIN', 'SUPER') ORDER BY 1
"""
# Engines that write no row before its transaction commits.
ENGINE = "INNODB"
# Character sets of which the log has bytes whose text only the server knows.
UNREAD = frozenset({"eucjpms", "swe7"})
_WANTED = {
    "binlog_format": ("ROW", Sentence("only rows say what was changed")),
    "binlog_row_image": (
        "FULL",
        Sentence("the log lacks columns of former and of new rows"),
    ),
    "binlog_row_metadata": ("FULL", Sentence("the log has no names of columns")),
}
_ON_ALL = re.compile(r"GRANT (?P<rights>.*?) ON \*\.\* TO ", re.IGNORECASE)
_READS = frozenset({"REPLICATION SLAVE", "REPLICATION REPLICA", "ALL PRIVILEGES"})


@dataclass(frozen=True, slots=True)
class LogServer:
    """settings: SETTINGS. rights: of the login on all databases. only, without: the
    databases that the log has, () = all, and those that it leaves out. may_look:
    whether the login may ask where the log is."""

    settings: Mapping[str, str]
    rights: frozenset[str]
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    may_look: bool = True
    is_member: bool = False
    is_replica: bool = False

    def leaves_out(self, database: str) -> bool:
        return database in self.without or bool(self.only and database not in self.only)


def read_server(
    rows: Rows,
    *,
    place: Sequence[tuple[Any, ...]] | None,
    is_replica: bool | None,
) -> LogServer:
    """place: rows of PLACE; None = the login may not ask."""
    settings = {str(name).lower(): str(value) for name, value in rows(SETTINGS)}
    only, without = place[0][2:4] if place else ("", "")
    return LogServer(
        settings,
        _rights(str(text) for (text,) in rows(GRANTS)),
        _names(only),
        _names(without),
        place is not None,
        membership_of(rows) is not None,
        bool(is_replica),
    )


_NO_LOG = Lack(
    "the server writes no binary log",
    "log_bin = binlog /* in its configuration, with a server_id, then restart the"
    " server */",
)


def setting_lacks(settings: Mapping[str, str]) -> tuple[Lack, ...]:
    """What the server's settings lack."""
    if "mariadb" not in settings.get("version", "").lower():
        return (Lack("the log of MySQL is not followed yet, only that of MariaDB"),)
    # All at once, so that one restart of the server is enough.
    unset = tuple(
        Lack(
            Sentence(
                "%(name)s is '%(value)s': %(why)s",
                name=name,
                value=settings.get(name, ""),
                why=why,
            ),
            f"SET GLOBAL {name} = '{wanted}'; /* and in its configuration, sessions"
            " that are open keep what they have */",
        )
        for name, (wanted, why) in _WANTED.items()
        if settings.get(name, "").upper() != wanted
    )
    return unset if settings.get("log_bin") == "ON" else (_NO_LOG, *unset)


def may_lose_commits(settings: Mapping[str, str]) -> bool:
    """Whether tables of a server that died may be behind its log."""
    return settings.get("innodb_flush_log_at_trx_commit", "1") != "1"


def doubts_of(settings: Mapping[str, str], changers: Sequence[str]) -> tuple[str, ...]:
    """Behind what every table that is followed needs a resync, in sentences. changers:
    accounts that may set binlog_format, as far as the login sees them."""
    found = [
        Sentence(
            "users with BINLOG ADMIN or SUPER (of those seen: %(users)s) may set"
            " binlog_format in a session: once one logs a statement in place of rows,"
            " all followed tables need a resync",
            users=", ".join(changers),
        )
        if changers
        else Sentence(
            "users with BINLOG ADMIN or SUPER may set binlog_format in a session: once"
            " one logs a statement in place of rows, all followed tables need a resync"
        )
    ]
    if settings.get("sync_binlog", "1") != "1":
        found.append(
            Sentence(
                "sync_binlog is %(value)s: a power failure may take the end of a log"
                " that was read, and all followed tables need a resync then:"
                " SET GLOBAL sync_binlog = 1",
                value=settings["sync_binlog"],
            )
        )
    if may_lose_commits(settings):
        found.append(
            Sentence(
                "innodb_flush_log_at_trx_commit is %(value)s: once the server dies, all"
                " followed tables need a resync:"
                " SET GLOBAL innodb_flush_log_at_trx_commit = 1",
                value=settings["innodb_flush_log_at_trx_commit"],
            )
        )
    return tuple(found)


def lacks_of(server: LogServer, who: str) -> Iterator[Lack]:
    """What server and login lack. who: the account, as GRANT names it."""
    if server.is_member:
        why = (
            "the server is one of several members of a cluster, whose logs differ:"
            " that is not followed yet"
        )
        yield Lack(why)
        return
    yield from setting_lacks(server.settings)
    if server.is_replica and server.settings.get("log_slave_updates") != "ON":
        yield Lack(
            "the server is a replica, and its log lacks what it replicates",
            "log_slave_updates = ON /* in its configuration, then restart the server"
            " */",
        )
    if not server.rights & _READS:
        yield Lack(
            "the datasource's user may not receive the log",
            f"GRANT REPLICATION SLAVE ON *.* TO {who};",
        )
    if not server.may_look:
        yield Lack(
            "the datasource's user may not ask where the log is",
            f"GRANT BINLOG MONITOR ON *.* TO {who};",
        )


def table_log(
    server: LogServer,
    database: str,
    *,
    engine: str,
    collations: Mapping[str, str | None],
    older: Older,
) -> TableLog:
    """collations: of all columns, None for those without one."""
    return TableLog(
        is_full=True,
        identity=tuple(collations),
        unread=tuple(n for n, one in collations.items() if _charset(one) in UNREAD),
        is_published=True,
        unfit=unfit(server, database, engine),
        tells_older=True,
        older_by_log=True,
        tells_dropped=True,
        older=older.values,
        untold=older.untold,
    )


def _charset(collation: str | None) -> str:
    """By its name the names of its collations begin."""
    return (collation or "").partition("_")[0]


def unfit(server: LogServer, database: str, engine: str) -> str:
    """Why the log has not exactly what happens to a table, in words; "" = it has."""
    if engine.upper() != ENGINE:
        return Sentence(
            "its engine is %(engine)s, which shows rows before their transaction is in"
            " the log: ALTER TABLE … ENGINE = InnoDB at the source",
            engine=engine,
        )
    if server.leaves_out(database):
        return Sentence(
            "the server leaves database %(database)s out of its log (binlog_do_db,"
            " binlog_ignore_db)",
            database=database,
        )
    return ""


def _rights(grants: Any) -> frozenset[str]:
    found: set[str] = set()
    for text in grants:
        if on_all := _ON_ALL.match(text):
            found |= {right.strip().upper() for right in on_all["rights"].split(",")}
    return frozenset(found)


def _names(text: object) -> tuple[str, ...]:
    return tuple(name for name in str(text or "").split(",") if name)
