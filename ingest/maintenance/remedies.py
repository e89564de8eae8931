"""Which repair ends an instant that nobody works on. Pure; the score, the previews and
the pages all ask here, so that none of them offers what another one refuses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ingest.lake.hudi.timeline import WRITES
from ingest.maintenance.facts import Pending

Repair = Literal[
    "", "compact", "clean", "rollback", "unschedule-compaction", "deduplicate",
    "resync", "repair", "resize", "restore", "drop-metadata-table",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Way:
    """A repair, and the instant that it is asked for; "" = it is asked for none."""

    repair: Repair
    instant: str = ""


def ways_out(pending: Pending) -> tuple[Way, ...]:
    """The best one first; () for what only another program can end."""
    if pending.action == "compaction":
        return _of_compaction(pending)
    if pending.action in WRITES:
        return (Way("rollback", pending.instant),)
    if pending.action == "clean":
        # Hudi goes on with a cleaning that was begun before it plans another
        return (Way("clean"),)
    if pending.back_to:
        return (Way("restore", pending.back_to),)
    if pending.action == "rollback":
        # it ends with whatever it undoes, so it has no instant of its own to ask for
        return (Way("rollback"),)
    return ()


def _of_compaction(pending: Pending) -> tuple[Way, ...]:
    unschedule = Way("unschedule-compaction", pending.instant)
    if not pending.is_readable:
        return (unschedule,)
    compact = Way("compact", pending.instant)
    if pending.state != "INFLIGHT":
        # a plan that nobody began is not unfinished: it is executed, or taken off
        return (compact, unschedule)
    # executing it again undoes the attempt that was left before
    return (Way("rollback", pending.instant), compact, unschedule)
