"""A change of one row, and the fold that keeps the last change per key.

Every capture (timestamp now, logs later) speaks in these. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Op = Literal["upsert", "delete"]


@dataclass(frozen=True, slots=True)
class ChangeEvent:
    """One row after a change. A delete carries only what its key needs.

    table_id  whose row; key = lake values of the record key, in key order
    position  the source's position of the change, as text
    """

    table_id: int
    op: Op
    key: tuple[Any, ...]
    row: Mapping[str, Any]
    position: str


def fold(events: Iterable[ChangeEvent]) -> tuple[ChangeEvent, ...]:
    """The last event per table and key, in order of those last events."""
    last: dict[tuple[int, tuple[Any, ...]], ChangeEvent] = {}
    for event in events:
        identity = (event.table_id, event.key)
        last.pop(identity, None)  # re-inserted at the end: order of last writes
        last[identity] = event
    return tuple(last.values())
