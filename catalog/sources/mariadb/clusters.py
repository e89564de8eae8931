"""Whether a MariaDB or MySQL server is one of several that all commit: Galera, and
Group Replication of MySQL.

Asked at discovery and before each read alike; needs no right for Galera. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Rows = Callable[[str], list[tuple[Any, ...]]]

RIGHT_TO_ASK = "SELECT on performance_schema.replication_group_members"
_GALERA = """
SHOW GLOBAL STATUS WHERE Variable_name IN
  ('wsrep_cluster_size', 'wsrep_cluster_status', 'wsrep_local_state')
"""
_SYNCED = "4"
_GROUP = "SHOW GLOBAL VARIABLES LIKE 'group_replication_group_name'"
# Those that the login may read are named there.
_MAY_ASK = """
SELECT 1 FROM information_schema.tables
WHERE table_schema = 'performance_schema' AND table_name = 'replication_group_members'
"""
_MEMBERS = """
SELECT member_state, member_id = @@server_uuid
FROM performance_schema.replication_group_members
"""


@dataclass(frozen=True, slots=True)
class Membership:
    """Of a server that applies what other members commit.

    is_synced  it is in touch with most of them and has caught up; False when it does
               not say
    """

    is_synced: bool


def membership_of(rows: Rows) -> Membership | None:
    """None = there are no other members."""
    galera = {str(name).lower(): str(value) for name, value in rows(_GALERA)}
    status = galera.get("wsrep_cluster_status")
    # one that was cut off counts itself alone
    if int(galera.get("wsrep_cluster_size") or 0) > 1 or status == "non-Primary":
        is_synced = galera.get("wsrep_local_state") == _SYNCED
        return Membership(is_synced and status == "Primary")
    if not any(value for _, value in rows(_GROUP)):
        return None
    members = rows(_MEMBERS) if rows(_MAY_ASK) else []
    return _of_group([(str(state), bool(is_own)) for state, is_own in members])


def _of_group(members: list[tuple[str, bool]]) -> Membership | None:
    if len(members) < 2 and ("ONLINE", True) in members:
        return None
    reached = [state for state, _ in members if state in ("ONLINE", "RECOVERING")]
    return Membership(("ONLINE", True) in members and 2 * len(reached) > len(members))
