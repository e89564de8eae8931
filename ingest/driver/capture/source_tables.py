"""The tables of a source that are one lake table: looked at, and cut into chunks.

One, but for a sharded table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ingest.contract.table import TableSpec, sources_of
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.capture.chunking import Cut, by_shard, cut_table, key_parts
from ingest.driver.capture.jdbc import Fetch, fetch_rows
from ingest.driver.capture.source_check import require_columns
from ingest.sources.chunks import Chunk, ChunkBy, predicate_for, without_end
from ingest.sources.port import KeyFacts, Source
from ingest.sources.select import Selection, relation_of, select_of


@dataclass(frozen=True, slots=True)
class SourceTable:
    """facts: of its key, None = it has none."""

    table: TableSpec
    facts: KeyFacts | None
    fetch: Fetch
    selection: Selection

    @property
    def is_by_key(self) -> bool:
        """Whether the source finds ranges of its key, and each row in one of them."""
        facts = self.facts
        return facts is not None and facts.is_walkable and facts.is_not_null

    @property
    def is_key_unique(self) -> bool:
        """Whether the source guarantees it."""
        facts = self.facts
        return facts is not None and facts.is_unique and facts.is_exact

    def where(self, source: Source, by: ChunkBy, chunk: Chunk) -> str:
        parts = key_parts(self.table, self.facts)
        return predicate_for(source.dialect, by, parts, chunk)

    def sql(self, source: Source, where: str) -> str:
        return self.selection.sql(relation_of(source.dialect, self.table), where)


def look_at(run: JobRun, source: Source, *, was_wide: int) -> tuple[SourceTable, ...]:
    """In the order of their shards. InvalidRequest `source_changed` where one has
    other columns than planned."""
    return tuple(
        look_at_one(run, source, table, was_wide=was_wide)
        for table in sources_of(run.spec.table)
    )


def look_at_one(
    run: JobRun, source: Source, table: TableSpec, *, was_wide: int
) -> SourceTable:
    """table: one of `sources_of`."""
    run.check()
    require_columns(source, table, run.warn)
    facts = None if table.row_hash else source.key_facts(table, table.key)
    fetch = fetch_rows(source.widths(table), was_wide)
    return SourceTable(table, facts, fetch, select_of(source.dialect, table))


def cut_all(
    run: JobRun,
    source: Source,
    tables: Sequence[SourceTable],
    *,
    chunk_rows: int,
    readers: int,
) -> Cut:
    """Into chunks that say which of the tables they are of. Those of keys have no end:
    what was taken for the highest key must not hide a row that compares higher."""
    cuts = []
    is_sharded = bool(run.spec.table.shards)
    for one in tables:
        with source.within(one.table):
            cut = cut_table(
                run,
                source,
                one.table,
                one.facts,
                chunk_rows=chunk_rows,
                # other shards keep the readers busy
                readers=1 if is_sharded else readers,
            )
        cuts.append(cut)
    cut = by_shard(cuts) if is_sharded else cuts[0]
    return Cut("key", without_end(cut.chunks)) if cut.by == "key" else cut
