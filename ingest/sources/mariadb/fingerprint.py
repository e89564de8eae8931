"""Who a MariaDB or MySQL server is, which table a name means now, and whether the
server replicates from another one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pymysql

from catalog.sources.mariadb.clusters import Rows as Ask
from catalog.sources.mariadb.clusters import membership_of
from catalog.sources.mariadb.replicas import (
    PRIVILEGE_MISSING,
    REPLICA_STATUS,
    SYNTAX_ERROR,
    ReplicaStatus,
    replica_of,
)
from ingest.contract.positions import Replica
from ingest.contract.table import TableSpec
from ingest.sources.fingerprint import MOST_FILES, ServerFingerprint

if TYPE_CHECKING:
    Connection = pymysql.Connection[pymysql.cursors.Cursor]

Rows = Callable[[str, Sequence[object] | None], list[tuple[Any, ...]]]

_GTID = re.compile(r"(\d+)-\d+-(\d+)")
# @@server_uid is not there in all releases, and a name that is not there is an error.
_VARIABLES = """
SHOW GLOBAL VARIABLES WHERE Variable_name IN
  ('server_id', 'server_uid', 'server_uuid', 'gtid_binlog_pos')
"""
# An ALTER that rebuilds the table changes its time as well, a TRUNCATE does not.
_CREATED = """
SELECT create_time, coalesce(auto_increment, 0) FROM information_schema.tables
WHERE table_schema = %s AND table_name = %s
"""
# After so long without a word a replica says that it receives nothing.
_PATIENCE = """
SHOW GLOBAL VARIABLES
WHERE Variable_name IN ('slave_net_timeout', 'replica_net_timeout')
"""
# A member of a cluster that is cut off notices it within that.
_MEMBER_PATIENCE = timedelta(seconds=15)
_EARLIEST = datetime.min.replace(tzinfo=UTC)


def read_fingerprint(
    rows: Rows, table: TableSpec, files: Sequence[int]
) -> ServerFingerprint:
    """files  InnoDB's numbers of it and of its partitions"""
    found = {str(n).lower(): str(v) for n, v in rows(_VARIABLES, None)}
    created = rows(_CREATED, [table.source_schema, table.source_table])
    made, counter = created[0] if created else (None, 0)
    log = _GTID.findall(found.get("gtid_binlog_pos", ""))
    names = ("server_id", "server_uid", "server_uuid")
    return ServerFingerprint(
        relation=str(made or ""),
        files=tuple(sorted(files)[:MOST_FILES]),
        counter=int(counter),
        server=" ".join(found[name] for name in names if name in found),
        log={f"log of domain {domain}": int(number) for domain, number in log},
    )


def read_replica(connection: Connection, now: datetime) -> Replica | None:
    """How far it has applied what other servers commit, at least; None = there are no
    others.

    now  of its clock, read before
    """

    def rows(sql: str) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    until = now.replace(tzinfo=UTC)
    known = [_member(rows, until), _follower(_status(connection), rows, until)]
    found = [replica for replica in known if replica is not None]
    # the one that says least counts
    return min(found, key=lambda r: r.replayed or _EARLIEST, default=None)


def _member(rows: Ask, until: datetime) -> Replica | None:
    membership = membership_of(rows)
    if membership is None:
        return None
    return Replica(until - _MEMBER_PATIENCE if membership.is_synced else None)


def _follower(
    status: ReplicaStatus | str | None, rows: Ask, until: datetime
) -> Replica | None:
    if isinstance(status, ReplicaStatus):
        if status.follows_replica:
            return Replica(None, follows_replica=True)
        if status.seconds_behind is None:
            return Replica(None)
        # 0 behind what it received, the last of it so long ago at most
        patience = max(int(seconds) for _, seconds in rows(_PATIENCE))
        return Replica(until - timedelta(seconds=max(status.seconds_behind, patience)))
    if status is not None and rows("SELECT @@global.read_only")[0][0]:
        return Replica(until, may_ask=False)  # as primaries are not
    return None


def _status(connection: Connection) -> ReplicaStatus | str | None:
    """Words instead of a status when the login may not ask."""
    with connection.cursor(pymysql.cursors.DictCursor) as cursor:
        for statement in REPLICA_STATUS:
            try:
                cursor.execute(statement)
            except pymysql.MySQLError as error:
                if error.args[:1] == (SYNTAX_ERROR,):
                    continue
                if error.args[:1] == (PRIVILEGE_MISSING,):
                    return "forbidden"
                raise
            return replica_of(cursor.fetchall())
    return "unknown"
