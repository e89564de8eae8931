"""A change of one row, and the merge that keeps the last write per key.

Readers of logs speak in these, of which there is none yet: so far the tests of the
contract between capture and apply do (docs/adr/0024-epochs-of-many-tables.md). Pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Op = Literal["insert", "update", "delete"]
# The columns that a file of changes has beside those of its rows: what happened to the
# row, and its place among the changes of the epoch, from 1.
OP, INDEX = "op", "i"


@dataclass(frozen=True, slots=True)
class ChangeEvent:
    """One row after a change. A delete carries what its key and partition need.

    table_id  whose row; key = lake values of the record key, in key order
    position  the source's position of the change, encoded
    old_key   of an update: the key before it; None = not known to differ
    index     its place in the epoch; 0 = not numbered yet
    """

    table_id: int
    op: Op
    key: tuple[Any, ...]
    row: Mapping[str, Any] = field(default_factory=dict)
    position: str = ""
    old_key: tuple[Any, ...] | None = None
    index: int = 0


def numbered(events: Iterable[ChangeEvent]) -> Iterator[ChangeEvent]:
    """Events as an epoch stores them, numbered from 1 in the order of the source. A key
    is what the source compares, byte for byte: an update that changed it is a delete of
    the old row and an insert of the new one, whatever a collation calls equal."""
    index = 0
    for event in events:
        for one in _split(event):
            index += 1
            yield dataclasses.replace(one, index=index)


def latest_per_key(events: Iterable[ChangeEvent]) -> tuple[ChangeEvent, ...]:
    """The last event per table and key, in order of those last events."""
    last: dict[tuple[int, tuple[Any, ...]], ChangeEvent] = {}
    for event in events:
        identity = (event.table_id, event.key)
        last.pop(identity, None)  # re-inserted at the end: order of last writes
        last[identity] = event
    return tuple(last.values())


def _split(event: ChangeEvent) -> tuple[ChangeEvent, ...]:
    if event.old_key is None or event.old_key == event.key:
        return (event,)
    gone = ChangeEvent(event.table_id, "delete", event.old_key, {}, event.position)
    return (gone, dataclasses.replace(event, op="insert", old_key=None))
