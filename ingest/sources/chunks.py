"""Cutting a table into chunks by key ranges, as values and predicates.

Boundaries are texts computed and compared by the database only: another
collation in the client would lose rows. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ingest.sources.dialects import Dialect

ChunkBy = Literal["key", "ctid", "whole"]

# Even steps through a key range with more holes than this make empty chunks.
_DENSE = 4
_MAX_CHUNKS = 10_000
_LEAST_SHARE = 50_000


@dataclass(frozen=True, slots=True)
class KeyPart:
    """A column of the key with the source's own type, for literals."""

    column: str
    type: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows with low < key ≤ high; () means open. For ctid, pages [low, high). shard:
    of which of the table's `sources_of`, by its place."""

    number: int
    low: tuple[str, ...] = ()
    high: tuple[str, ...] = ()
    shard: int = 0


def fill_waves(chunk_rows: int, *, rows: int, readers: int) -> int:
    """`chunk_rows`, lowered so that the last wave keeps every reader busy: five
    chunks on two readers leave one of them idle for a third of the time. A chunk
    alone is shared out only when it is worth its connections."""
    chunks = -(-rows // max(1, chunk_rows))
    if chunks <= 1 and rows < _LEAST_SHARE * readers:
        return chunk_rows
    waves = -(-chunks // max(1, readers))
    return -(-rows // (waves * max(1, readers)))


def plan_even_chunks(
    *, lowest: int, highest: int, rows: int, chunk_rows: int
) -> tuple[Chunk, ...] | None:
    """Equal steps over an integer key, or None when it has too many holes."""
    width = highest - lowest + 1
    count = min(max(1, -(-rows // max(1, chunk_rows))), _MAX_CHUNKS, width)
    if count > 1 and width > _DENSE * max(rows, 1):
        return None
    edges = [str(lowest + width * i // count - 1) for i in range(1, count)]
    return plan_walked_chunks([(e,) for e in edges], (str(highest),))


def plan_walked_chunks(
    edges: Sequence[tuple[str, ...]], highest: tuple[str, ...]
) -> tuple[Chunk, ...]:
    """Chunks between boundaries that the database found; the last ends at the highest
    key seen."""
    chunks: list[Chunk] = []
    low: tuple[str, ...] = ()
    for edge in (*edges, highest):
        if edge != low:
            chunks.append(Chunk(len(chunks), low, edge))
        low = edge
    return tuple(chunks)


def without_end(chunks: Sequence[Chunk]) -> tuple[Chunk, ...]:
    """The last one of each shard goes on beyond the highest key, whatever was taken for
    that."""
    last = {chunk.shard: chunk.number for chunk in chunks}
    return tuple(
        replace(one, high=()) if one.number == last[one.shard] else one
        for one in chunks
    )


def plan_page_chunks(*, pages: int, rows: int, chunk_rows: int) -> tuple[Chunk, ...]:
    """Ranges of heap pages, for tables without an index on their key."""
    count = min(max(1, -(-rows // max(1, chunk_rows))), max(1, pages), _MAX_CHUNKS)
    edges = ["0", *[str(pages * i // count) for i in range(1, count)], ""]
    return tuple(
        Chunk(i, (edges[i],), (edges[i + 1],) if edges[i + 1] else ())
        for i in range(count)
    )


def predicate_for(
    dialect: Dialect, by: ChunkBy, parts: Sequence[KeyPart], chunk: Chunk
) -> str:
    """SQL for one chunk, however the table was cut."""
    if by == "key" and parts:
        return key_predicate(dialect, parts, chunk)
    return page_predicate(chunk) if by == "ctid" else "TRUE"


def key_predicate(dialect: Dialect, parts: Sequence[KeyPart], chunk: Chunk) -> str:
    """SQL for one chunk by key."""
    terms = []
    if chunk.low:
        terms.append(after_predicate(dialect, parts, chunk.low))
    if chunk.high:
        columns = [dialect.name(p.column) for p in parts]
        terms.append(dialect.up_to(columns, _values(dialect, parts, chunk.high)))
    return " AND ".join(terms) or "TRUE"


def page_predicate(chunk: Chunk) -> str:
    """For PostgreSQL, whose rows have an address."""
    terms = [f"ctid >= '({int(chunk.low[0])},0)'::tid"]
    if chunk.high:
        terms.append(f"ctid < '({int(chunk.high[0])},0)'::tid")
    return " AND ".join(terms)


def after_predicate(
    dialect: Dialect, parts: Sequence[KeyPart], low: tuple[str, ...]
) -> str:
    """Keys beyond `low`, for walking an index."""
    if not low:
        return "TRUE"
    columns = [dialect.name(p.column) for p in parts]
    return dialect.beyond(columns, _values(dialect, parts, low))


def _values(
    dialect: Dialect, parts: Sequence[KeyPart], values: tuple[str, ...]
) -> list[str]:
    pairs = zip(parts, values, strict=True)
    return [dialect.key_value(value, part.type) for part, value in pairs]
