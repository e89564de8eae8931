"""Asking the source where to cut a table, inside the load's own snapshot.

The database computes and compares every boundary. It must not read rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from core.errors import TerminalError
from core.sentences import as_sentence
from ingest.contract.table import SourceSpec, TableSpec
from ingest.driver.apply.jobrun import JobRun
from ingest.sources.chunks import (
    Chunk,
    ChunkBy,
    KeyPart,
    fill_waves,
    plan_even_chunks,
    plan_page_chunks,
    plan_walked_chunks,
)
from ingest.sources.port import KeyFacts, Source
from ingest.sources.statements import KeyStatements

_ROWS_PER_PAGE = 50
_THROTTLED_CHUNK_SECONDS = 5
# Chunks of a short load: what a kill may cost, a million rows that are read in seconds.
SHORT = 4


@dataclass(frozen=True, slots=True)
class Cut:
    by: ChunkBy
    chunks: tuple[Chunk, ...]


def cut_table(
    run: JobRun,
    source: Source,
    table: TableSpec,
    facts: KeyFacts | None,
    *,
    chunk_rows: int,
    readers: int,
) -> Cut:
    """Chunks by key where an index supports it, else by heap pages, else one.

    At most about `chunk_rows` each, read by `readers` at once."""
    pages = source.pages(table)
    # a table that was never analysed has no estimate
    rows = source.estimated_rows(table) or max(pages, 1) * _ROWS_PER_PAGE
    chunk_rows = fill_waves(chunk_rows, rows=rows, readers=readers)
    if facts is not None and facts.is_walkable and facts.is_not_null:
        return _by_key(run, source, table, facts, rows=rows, chunk_rows=chunk_rows)
    if pages < 0:
        return Cut("whole", (Chunk(0),))
    return Cut("ctid", plan_page_chunks(pages=pages, rows=rows, chunk_rows=chunk_rows))


def by_shard(cuts: Sequence[Cut]) -> Cut:
    """Of all shards together. One without an index on its key is a chunk."""
    chunks = [
        replace(chunk, shard=shard)
        for shard, cut in enumerate(cuts)
        for chunk in (cut.chunks if cut.by == "key" else (Chunk(0),))
    ]
    return Cut("key", tuple(replace(one, number=n) for n, one in enumerate(chunks)))


def fit_throttle(chunk_rows: int, source: SourceSpec) -> int:
    """`chunk_rows` for this source: a throttle counts whole chunks, so small ones
    keep the flow even."""
    if not source.max_rows_per_second:
        return max(1, chunk_rows)
    limit = source.max_rows_per_second * _THROTTLED_CHUNK_SECONDS
    return max(1, min(chunk_rows, limit))


def chunk_rows_of_load(chunk_rows: int, source: SourceSpec, *, rows: int) -> int:
    """`chunk_rows` for a table of so many rows, 0 = nobody knows. A short load is one
    wave: however it is cut, a kill costs all of it."""
    fitting = fit_throttle(chunk_rows, source)
    is_short = 0 < rows <= SHORT * fitting and not source.max_rows_per_second
    return SHORT * fitting if is_short else fitting


def is_short(chunks: int, source: SourceSpec) -> bool:
    return chunks <= max(SHORT, source.max_parallel_reads)


def key_parts(table: TableSpec, facts: KeyFacts | None) -> tuple[KeyPart, ...]:
    if facts is None:
        return ()
    return tuple(KeyPart(c, t) for c, t in zip(table.key, facts.types, strict=True))


def _by_key(
    run: JobRun,
    source: Source,
    table: TableSpec,
    facts: KeyFacts,
    *,
    rows: int,
    chunk_rows: int,
) -> Cut:
    dialect, parts = source.dialect, key_parts(table, facts)
    edge_of = KeyStatements(dialect, table, parts)
    highest = source.rows(edge_of.highest())
    if not highest:
        return Cut("key", (Chunk(0),))
    top = _edge(table, highest[0])
    if len(parts) == 1 and dialect.is_integer(parts[0].type):
        lowest = source.one(edge_of.lowest())[0]
        even = plan_even_chunks(
            lowest=int(lowest), highest=int(top[0]), rows=rows, chunk_rows=chunk_rows
        )
        if even is not None:
            return Cut("key", even)
    edges: dict[tuple[str, ...], None] = {}
    low: tuple[str, ...] = ()
    while True:
        run.check()
        found = source.rows(edge_of.beyond(low, rows=chunk_rows))
        if not found:
            break
        run.note_answer()
        low = _edge(table, found[0])
        if low in edges:
            raise _unwalkable(table, "behind a boundary the source finds it again")
        edges[low] = None
    return Cut("key", plan_walked_chunks([*edges], top))


def _edge(table: TableSpec, found: tuple[Any, ...]) -> tuple[str, ...]:
    if None in found:
        raise _unwalkable(
            table, "the source gives NULL for a value of it (max_allowed_packet?)"
        )
    return tuple(found)


def _unwalkable(table: TableSpec, why: str) -> TerminalError:
    """What a walk would never end with, or pass rows over."""
    return TerminalError(
        "%(table)s cannot be cut by its key %(key)s: %(why)s. Nothing was written",
        table=table.at_source,
        key=", ".join(table.key),
        why=as_sentence(why),
        code="key_not_walkable",
        hint="check the table and its index at the source (CHECK TABLE, REINDEX), then"
        " start this again; report it if it stays",
    )
