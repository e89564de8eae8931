"""What a MariaDB or MySQL server says of its own replication, as a value. Pure.

Asked at discovery and before each read alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# The first one that the server understands: MariaDB's tells of every connection, and
# MySQL calls it by another name since 8.0.22.
REPLICA_STATUS = ("SHOW ALL SLAVES STATUS", "SHOW REPLICA STATUS", "SHOW SLAVE STATUS")
# Errors of a server: no such statement; the login may not ask.
SYNTAX_ERROR, PRIVILEGE_MISSING = 1064, 1227
# What a login needs, by server.
RIGHT_TO_ASK = "MariaDB: SLAVE MONITOR, MySQL: REPLICATION CLIENT"


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """Of a server that applies changes of another one.

    seconds_behind  how old the change is that it applies now; None = it does not say,
                    because replication stands still
    follows_replica  what it applied last was committed by another server than the one
                     that it follows, which may be cut off from that one, and silent
    """

    seconds_behind: int | None
    follows_replica: bool = False


def replica_of(rows: Iterable[Mapping[str, Any]]) -> ReplicaStatus | None:
    """From the rows of REPLICA_STATUS; None when it replicates from nowhere. Of
    several connections the one that is furthest behind counts."""
    connections = [{str(name).lower(): v for name, v in row.items()} for row in rows]
    # members of a group have such ones, which stand still between them
    followed = [c for c in connections if not _is_of_group(c)]
    if not followed:
        return None
    found = [_behind(connection) for connection in followed]
    known = [seconds for seconds in found if seconds is not None]
    return ReplicaStatus(
        max(known) if len(known) == len(found) else None,
        _has_foreign_origins(followed) or any(map(_received_foreign, followed)),
    )


def _is_of_group(values: Mapping[str, Any]) -> bool:
    return str(values.get("channel_name") or "").startswith("group_replication_")


def _behind(values: Mapping[str, Any]) -> int | None:
    receives = _named(values, "slave_io_running", "replica_io_running")
    behind = _named(values, "seconds_behind_master", "seconds_behind_source")
    # one that receives nothing counts as 0 behind what it has
    return int(behind) if receives == "Yes" and behind is not None else None


def _has_foreign_origins(connections: Iterable[Mapping[str, Any]]) -> bool:
    """Of MariaDB: what was applied last, of each domain (`0-1-42`), over all
    connections together."""
    numbers, origins = {"0"}, set()
    for values in connections:
        numbers.add(str(values.get("master_server_id") or "0"))
        applied = str(values.get("gtid_slave_pos") or "")
        origins |= {gtid.split("-")[1] for gtid in applied.split(",") if gtid.strip()}
    return not origins <= numbers


def _received_foreign(values: Mapping[str, Any]) -> bool:
    """Of MySQL, with GTIDs: what was received (`uuid:1-42,uuid:1-7`)."""
    name = str(_named(values, "master_uuid", "source_uuid") or "").lower()
    received = str(values.get("retrieved_gtid_set") or "").lower()
    uuids = [gtids.strip().split(":")[0] for gtids in received.split(",") if gtids]
    return bool(name) and any(uuid != name for uuid in uuids)


def _named(values: Mapping[str, Any], *names: str) -> Any:
    return next((values[n] for n in names if n in values), None)
