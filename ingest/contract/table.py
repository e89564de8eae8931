"""The source and lake table that a job works on, and under which fence. Values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Updates = Literal["full", "partial"]
Gone = Literal["", "undecided", "kept", "deleted"]

# In the place of a source name: the column that says which shard a row is of. No
# database has a column of that name.
SHARD = ""


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """Where to read. The password is asked for over the pipe by `secret_ref`."""

    datasource_id: int
    kind: str
    host: str
    port: int
    database: str
    username: str
    secret_ref: str
    tls: str = "off"
    max_parallel_reads: int = 2
    max_rows_per_second: int = 0


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """A column to carry. `lossy`: what becomes of values the lake cannot hold.
    `older`: what rows from before it was added have, as the source prints it; None =
    NULL."""

    source_name: str
    name: str
    source_type: str
    type: str
    lossy: Literal["", "null", "string"] = ""
    older: str | None = None


@dataclass(frozen=True, slots=True)
class SealedColumn:
    """A column of a part of a segment. bit: its place in the masks of unfit values, -1
    when all values fit."""

    alias: str
    source_name: str
    type: str
    bit: int = -1


@dataclass(frozen=True, slots=True)
class ShardSpec:
    """One of the source tables that are one lake table. value: what the lake's column
    `SHARD` has in its rows. is_unread: it came later, and no job has read it yet: of
    its rows the lake has those that changed since, at most. since: the lake's commit
    that brought such a one; "" = the first load, or it had no rows. gone: it is not at
    the source any more, and what was decided of the lake's rows of it: deleted ones go
    by the stream."""

    schema: str
    table: str
    value: str
    is_unread: bool = False
    since: str = ""
    gone: Gone = ""

    @property
    def name(self) -> str:
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A source table, its lake table and the identity that is pinned for it.

    key          source names; () with row_hash True means the whole-row hash
    path         absolute path or URI of the lake table
    staging      directory for this table's staged files (same storage)
    lock         of its writers: "" = in their one driver, "zookeeper" = in several
    updates      "partial": a NULL in a newer row leaves the column as it was
    left_out     of a table that follows its source's log: the columns there, by their
                 source names, that are known and not carried. One that is neither here
                 nor among `columns` waits for a decision
    kept         columns of the lake table that are not read any more: NULL in each row
                 that is written
    shards       all tables of the source whose rows it has; () = the one that is named,
                 else that is the first of them, and `SHARD` is the first column of
                 `columns` and of `key`
    """

    table_id: int
    source_schema: str
    source_table: str
    database: str
    name: str
    path: str
    staging: str
    columns: tuple[ColumnSpec, ...]
    key: tuple[str, ...]
    row_hash: bool = False
    cursor: str | None = None
    partition_by: tuple[str, ...] = ()
    buckets: int = 1
    estimated_rows: int = 0
    schema_version: int = 1
    lock: str = ""
    updates: Updates = "full"
    left_out: tuple[str, ...] = ()
    kept: tuple[ColumnSpec, ...] = ()
    shards: tuple[ShardSpec, ...] = ()

    @property
    def at_source(self) -> str:
        return f"{self.source_schema}.{self.source_table}"

    @property
    def identifying(self) -> tuple[str, ...]:
        """The columns, by their source names, that say which row of the lake it is: a
        row that gets another value of one leaves its place there."""
        return tuple(dict.fromkeys((*self.key, *self.partition_by)))

    @property
    def read_columns(self) -> tuple[ColumnSpec, ...]:
        """That its source has."""
        return tuple(c for c in self.columns if c.source_name != SHARD)

    @property
    def shard_column(self) -> str:
        """The lake's; only of a sharded one."""
        return next(c.name for c in self.columns if c.source_name == SHARD)


def sources_of(table: TableSpec) -> tuple[TableSpec, ...]:
    """What is read for it, table by table of the source: of a shard all columns, and
    the key that it has there, and none that is gone."""
    if not table.shards:
        return (table,)
    key = tuple(name for name in table.key if name != SHARD)
    return tuple(
        replace(
            table,
            source_schema=one.schema,
            source_table=one.table,
            key=key,
            shards=(one,),
        )
        for one in table.shards
        if not one.gone
    )


def read_shards(table: TableSpec) -> frozenset[str]:
    """The values of those that the lake has."""
    return frozenset(one.value for one in table.shards if not one.is_unread)


@dataclass(frozen=True, slots=True)
class FenceSpec:
    """The fence file of the table and the token under which this job may write."""

    path: str
    token: int
