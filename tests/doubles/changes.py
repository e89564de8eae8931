"""Changes of rows, as a reader of a log would number them in an epoch."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ingest.contract.events import Op


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


def _split(event: ChangeEvent) -> tuple[ChangeEvent, ...]:
    if event.old_key is None or event.old_key == event.key:
        return (event,)
    gone = ChangeEvent(event.table_id, "delete", event.old_key, {}, event.position)
    return (gone, dataclasses.replace(event, op="insert", old_key=None))
