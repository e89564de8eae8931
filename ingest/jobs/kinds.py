"""The kinds of ingestion jobs: lane, leases, how many run at once. Values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ingest.contract.kinds import COMPACT, REPAIR, RESYNC, SNAPSHOT, SYNC, VERIFY
from ingest.lake.fence import Scope


@dataclass(frozen=True, slots=True)
class JobKind:
    """scopes: the leases it takes, in this order; the first one is its key."""

    name: str
    lane: str
    scopes: tuple[Scope, ...]
    max_attempts: int = 4


KINDS: Final = {
    kind.name: kind
    for kind in (
        JobKind(SNAPSHOT, "snapshot", ("write",)),
        # replaces every file group, so nothing may compact them meanwhile
        JobKind(RESYNC, "snapshot", ("write", "service")),
        JobKind(SYNC, "apply", ("write",), max_attempts=3),
        JobKind(COMPACT, "maintenance", ("service",)),
        # writes nothing; nothing it reads may be cleaned away meanwhile
        # in a lane of its own: one with a budget takes hours, compactions do not wait
        JobKind(VERIFY, "verify", ("service",)),
        # takes instants away or replaces file groups: nobody writes meanwhile. Hudi
        # believes in a dead one for half a minute, so it is tried more often
        JobKind(REPAIR, "maintenance", ("write", "service"), max_attempts=6),
    )
}
# What becomes of these says nothing about how far their table has come.
UPKEEP: Final = frozenset({COMPACT, VERIFY, REPAIR})

# Where jobs with a driver of their own wait for it: they hold up nobody else.
OWN_LANE: Final = "own"

# How many specs of a lane a driver holds at once; the rest stays QUEUED and says so.
# `ingest.jobs.lanes` shares them out: no source has all places of a lane of several.
LANE_LIMITS: Final = {
    "apply": 4,
    "snapshot": 4,
    "maintenance": 1,
    "verify": 2,
    OWN_LANE: 1,
}
