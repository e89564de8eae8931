"""Epochs: the numbers of a table's writes. Pure.

Each write of a lake table has a range of them, above those of the write before. Of a
table that is followed by its log they are the numbers of its stream's segments; every
other table counts its own commits.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.errors import InvalidRequest

INDEX_BITS = 24
MAX_INDEX = (1 << INDEX_BITS) - 1
MAX_EPOCH = (1 << (63 - INDEX_BITS)) - 1


def seq_of(epoch: int, index: int) -> int:
    """`_sluice_seq`: numeric, monotone, independent of the source's own order.

    index 0 is a load's row, changes start at 1.
    """
    if not 0 <= epoch <= MAX_EPOCH:
        raise InvalidRequest(f"epoch {epoch} does not fit into _sluice_seq")
    if not 0 <= index <= MAX_INDEX:
        raise InvalidRequest(f"index {index} does not fit into one epoch")
    return epoch << INDEX_BITS | index


@dataclass(frozen=True, slots=True)
class SealedColumn:
    """A column of a part of a segment. bit: its place in the masks of unfit values, -1
    when all values fit."""

    alias: str
    source_name: str
    type: str
    bit: int = -1
