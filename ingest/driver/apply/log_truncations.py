"""What a log says of a table that was emptied: only rows behind that count. Of a
sharded table each shard is emptied by itself.

Arrow in, Arrow out. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ingest.contract.segments import OP, OPS

_TRUNCATE = OPS.index("truncate")


@dataclass(frozen=True, slots=True)
class Behind:
    """The rows that are left, and of which the log did not send all values: row →
    places of the columns as bits.

    is_emptied  the table was, before all of these
    shards      that were, each before its rows here
    """

    rows: pa.Table
    unsent: Mapping[int, int]
    is_emptied: bool = False
    shards: frozenset[str] = frozenset()


def rows_behind(rows: pa.Table, unsent: Mapping[int, int], shard: str | None) -> Behind:
    """Of rows in the order of the log. shard: the column that has a row's shard, also
    in a row that says that it was emptied; None = the table has no shards."""
    truncations = pc.indices_nonzero(pc.equal(rows[OP], _TRUNCATE))
    if not len(truncations):
        return Behind(rows, unsent)
    if shard is None:
        begins = int(truncations[-1].as_py()) + 1
        left = {n - begins: bits for n, bits in unsent.items() if n >= begins}
        return Behind(rows.slice(begins), left, is_emptied=True)
    values = rows[shard].take(truncations).to_pylist()
    last = dict(zip(values, truncations.to_pylist(), strict=True))
    places = _places_behind(last, rows[shard].combine_chunks())
    now = {place: n for n, place in enumerate(places.to_pylist())} if unsent else {}
    left = {now[row]: bits for row, bits in unsent.items() if row in now}
    return Behind(rows.take(places), left, shards=frozenset(last))


def _places_behind(last: Mapping[str, int], shards: pa.Array) -> pa.Array:
    """last: shard → the last row that emptied it."""
    places = pa.array(range(len(shards)), pa.int64())
    is_gone = pa.array([False] * len(shards))
    for shard, row in last.items():
        is_before = pc.and_(pc.equal(shards, shard), pc.less_equal(places, row))
        is_gone = pc.or_(is_gone, is_before)
    return places.filter(pc.invert(is_gone))
