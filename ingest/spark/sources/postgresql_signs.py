"""Who a PostgreSQL server is and which table a name means now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import psycopg

from ingest.changes.signs import ServerSigns

One = Callable[[str, Sequence[object] | None], tuple[Any, ...]]


def read_signs(one: One, relation: str) -> ServerSigns:
    """`relation` as it is quoted in SQL. What the login may not ask is not known."""
    oid, xid, is_standby = one(_COMMON, [relation])
    timeline = 0
    if not is_standby:
        # a checkpoint tells of a promotion later than the name of the log does
        timeline = int(str(one(_LOG_FILE, None)[0])[:8], 16)
    try:
        server, of_checkpoint = one(_CONTROL, None)
    except psycopg.errors.InsufficientPrivilege:
        server, of_checkpoint = "", 0
    return ServerSigns(
        relation=str(oid),
        is_exact=True,
        server=str(server),
        timeline=timeline or int(of_checkpoint),
        log={"transaction": int(xid)},
    )


_COMMON = """
SELECT %s::regclass::oid, txid_snapshot_xmax(txid_current_snapshot()),
       pg_is_in_recovery()
"""
_LOG_FILE = "SELECT pg_walfile_name(pg_current_wal_lsn())"
_CONTROL = """
SELECT (SELECT system_identifier FROM pg_control_system()),
       (SELECT timeline_id FROM pg_control_checkpoint())
"""
