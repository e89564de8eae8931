"""One table: what happens at a source, and how each kind of job may end when it happens
while the job reads.

Every job may end as succeeded, for what happens may lie before or behind its reading;
then the oracle compares the lake with the source. Any other end is one of the row's.
`python -m tests.hostile.behaviour` prints the table of docs/reading.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

SUCCEEDED = "succeeded"
LOCKED, REWRITTEN = "source_locked", "source_rewritten"
CHANGED, REFUSED = "source_changed", "source_value_refused"
GONE, RECREATED = "source_table_missing", "source_recreated"
EMPTY, REPEATED = "source_reads_empty", "repeated_keys"
CUT = ("source_unreachable", "source_ended_session", "source_snapshot_lost")
SILENT = ("source_silent", "source_slow")
AHEAD = "clock_ahead"


@dataclass(frozen=True, slots=True)
class Event:
    """load: how a snapshot, a resumed one and a re-sync may end beside succeeding.

    acts  of `tests.hostile.acts` that are this event, for both kinds of source
    """

    name: str
    acts: tuple[str, ...]
    load: tuple[str, ...] = ()
    sync: tuple[str, ...] = ()
    verify: tuple[str, ...] = ()

    def ends(self, job: str) -> tuple[str, ...]:
        return {"sync": self.sync, "verify": self.verify}.get(job, self.load)


_IN_THE_WAY = (LOCKED, REWRITTEN)
_OTHER_TABLE = (*_IN_THE_WAY, GONE)
_OTHER_TYPE = (*_IN_THE_WAY, CHANGED, REFUSED)
EVENTS = (
    Event(
        "rewritten: ADD COLUMN with a value of its own, SET UNLOGGED, VACUUM FULL;"
        " ALGORITHM=COPY, FORCE, OPTIMIZE",
        ("add-column-rewriting", "set-unlogged-and-back", "vacuum-full"),
        load=_IN_THE_WAY,
        sync=(*_IN_THE_WAY, RECREATED),
        verify=_IN_THE_WAY,
    ),
    Event(
        "a column gets another type",
        ("alter-type-wider", "alter-type-to-text"),
        load=_OTHER_TYPE,
        sync=(*_OTHER_TYPE, RECREATED),
        verify=_OTHER_TYPE,
    ),
    Event("a column is added", ("add-column",), _IN_THE_WAY, _IN_THE_WAY, _IN_THE_WAY),
    Event(
        "a column is dropped",
        ("drop-column",),
        load=_OTHER_TYPE,
        sync=(*_OTHER_TYPE, RECREATED),
        verify=_OTHER_TYPE,
    ),
    Event(
        "the key gets more columns, and values repeat",
        ("key-constraint",),
        load=(*_IN_THE_WAY, REPEATED),
        sync=(*_IN_THE_WAY, REPEATED, RECREATED),
        verify=(*_IN_THE_WAY, REPEATED),
    ),
    Event(
        "TRUNCATE and INSERT",
        ("truncate-and-insert", "truncate-and-the-same-rows"),
        load=(*_IN_THE_WAY, EMPTY),
        sync=(*_IN_THE_WAY, RECREATED),
        verify=_IN_THE_WAY,
    ),
    Event(
        "DROP and CREATE, tables swapped by name",
        ("drop-and-create", "rename-swap"),
        load=(*_OTHER_TABLE, EMPTY),
        sync=(*_OTHER_TABLE, RECREATED),
        verify=_OTHER_TABLE,
    ),
    Event(
        "a partition is attached, detached, swapped, truncated",
        (
            "attach-partition",
            "detach-partition",
            "swap-partition",
            "truncate-partition",
        ),
        load=_IN_THE_WAY,
        sync=(*_IN_THE_WAY, RECREATED),
        verify=_IN_THE_WAY,
    ),
    Event(
        "rows and keys change; transactions stay open, are prepared, are rolled back",
        ("writes", "key-values", "open-transaction", "rolled-back", "prepared"),
    ),
    Event(
        "the table is locked by somebody",
        ("locked",),
        load=(LOCKED,),
        sync=(LOCKED,),
        verify=(LOCKED,),
    ),
    Event("connections are cut", ("cut",), load=CUT, sync=CUT, verify=CUT),
    Event(
        "the source falls silent, or sends a few bytes at a time",
        ("silent-for-a-while", "trickling"),
        load=SILENT,
        sync=SILENT,
        verify=SILENT,
    ),
    Event(
        "the server restarts, with open and prepared transactions",
        ("restart", "open-transaction-lost", "prepared-over-a-restart"),
        load=CUT,
        sync=CUT,
        verify=CUT,
    ),
    Event("another server takes over", ("fail-over",), CUT, CUT, CUT),
    Event("the server is restored to an earlier moment", ("restored",), CUT, CUT, CUT),
    Event(
        "the clock of the source jumps",
        ("clock-ahead", "clock-back"),
        load=(AHEAD,),
        sync=(AHEAD,),
        verify=(AHEAD,),
    ),
)
_OF_ACT = {act: event for event in EVENTS for act in event.acts}


def unexpected(job: str, acts: tuple[str, ...], end: str) -> list[str]:
    """A violation when none of these events explains that end."""
    known = {SUCCEEDED} | {code for act in acts for code in _OF_ACT[act].ends(job)}
    if end in known:
        return []
    return [
        f"it ended as {end}, which {' and '.join(acts) or 'nothing'} does not explain"
    ]


def lines() -> Iterator[str]:
    yield "| while a job reads | a load may end as | a sync | a verification |"
    yield "|---|---|---|---|"
    for event in EVENTS:
        cells = (event.load, event.sync, event.verify)
        shown = " | ".join(", ".join(f"`{c}`" for c in cell) for cell in cells)
        yield f"| {event.name} | {shown} |"


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines()) + "\n")
