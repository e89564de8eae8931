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
    """

    seconds_behind: int | None


def replica_of(rows: Iterable[Mapping[str, Any]]) -> ReplicaStatus | None:
    """From the rows of REPLICA_STATUS; None when it replicates from nowhere. Of
    several connections the one that is furthest behind counts."""
    found = [_behind(row) for row in rows]
    if not found:
        return None
    known = [seconds for seconds in found if seconds is not None]
    return ReplicaStatus(max(known) if len(known) == len(found) else None)


def _behind(row: Mapping[str, Any]) -> int | None:
    values = {str(name).lower(): value for name, value in row.items()}

    def named(*names: str) -> Any:
        return next((values[n] for n in names if n in values), None)

    receives = named("slave_io_running", "replica_io_running")
    behind = named("seconds_behind_master", "seconds_behind_source")
    # one that receives nothing counts as 0 behind what it has
    return int(behind) if receives == "Yes" and behind is not None else None
