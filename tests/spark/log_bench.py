"""A stream of segments that a test makes by hand, and what applies it to lake tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from ingest.contract.applying import ApplyTable, ApplyWork
from ingest.contract.segments import AHEAD, OPS, Control, Segment
from ingest.contract.source_positions import PostgresLog
from ingest.contract.table import TableSpec
from ingest.driver.apply.log_apply import LogTable, spec_of
from ingest.driver.apply.log_read import Stream
from ingest.lake.chain import (
    ChainIndex,
    ChainWriter,
    begin_stream,
    stream_folder,
    take_over,
)
from ingest.lake.segment_files import SegmentBuilder
from ingest.sources.postgresql.log.pgoutput import Relation, RelationColumn, Rows
from ingest.sources.postgresql.log.values import RowReader
from ingest.sources.row_batches import HEAD_FIELDS, columns_in, schema_of
from tests.spark.lake_bench import LakeBench

NAME = "pg1"
SERVER = "7:1"
UNSENT = object()


def place(lsn: int) -> str:
    return PostgresLog("7", 1, lsn).encode()


@dataclass
class LogBench:
    """The stream of a bench's source. Positions are the numbers of transactions."""

    bench: LakeBench
    # the number of the first segment, which is empty: behind it comes the cut of a load,
    # and loads of a bench have the number 1
    begins: int = 0
    lsn: int = 1000
    readers: dict[tuple[int, int], tuple[Relation, RowReader]] = field(
        default_factory=dict
    )
    # how many columns its plan had first
    known: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder = stream_folder(self.bench.lake, NAME)
        begin_stream(self.folder, above=self.begins - 1)
        self.writer: ChainWriter = take_over(
            self.folder,
            stream=NAME,
            writer="test",
            server=SERVER,
            begin=place(self.lsn),
        )
        self.builder = SegmentBuilder(self.writer)

    def control(self, *controls: Control) -> Segment:
        return self.close(*controls)

    def change(
        self,
        table: TableSpec,
        *changes: tuple[Any, ...],
        xid: int = 0,
        gone: Sequence[str] = (),
    ) -> None:
        """changes: (op, value of each column as PostgreSQL prints it); UNSENT = the log
        did not send it. gone: columns that the plan has beside those of the table."""
        relation, reader = self._reader(table)
        rows = Rows(relation)
        for op, *values in changes:
            bits = sum(1 << n for n, value in enumerate(values) if value is UNSENT)
            if bits:
                rows.unchanged[len(rows.ops)] = bits
            rows.ops.append(OPS.index(op))
            rows.xids.append(xid)
            texts = (
                None if v is None or v is UNSENT else str(v).encode() for v in values
            )
            rows.values.append(tuple(texts))
        known = self.known.setdefault(table.table_id, len(table.columns))
        is_ahead = gone or len(table.columns) > known
        version = AHEAD if is_ahead else table.schema_version
        batch = reader.batch(rows)
        if gone:
            sealed = columns_in(batch.schema)
            end = len(HEAD_FIELDS) + len(sealed)
            types = batch.schema.types[len(HEAD_FIELDS) : end]
            masks = batch.num_columns - end
            schema = schema_of(sealed, types, masks, gone=gone)
            batch = pa.RecordBatch.from_arrays(batch.columns, schema=schema)
        self.builder.add(table.table_id, version, batch)

    def close(self, *controls: Control, committed: int = 1) -> Segment:
        """Makes the segment of what was changed."""
        self.lsn += 10
        return self.builder.close(
            end=place(self.lsn), controls=controls, committed=committed
        )

    def segment(self, table: TableSpec, *changes: tuple[Any, ...], **k: Any) -> Segment:
        self.change(table, *changes, **k)
        return self.close()

    def work(self, *tables: TableSpec, token: int = 1, **k: Any) -> ApplyWork:
        of_tables = tuple(
            ApplyTable(one, self.bench.spec("sync", one, token=token).fence, **k)
            for one in tables
        )
        return ApplyWork(
            "session", self.bench.source, NAME, self.bench.lake, 1, of_tables
        )

    def stream(self) -> Stream:
        found = Stream(ChainIndex(self.folder, NAME))
        while found.refresh():
            pass
        return found

    def table(self, table: TableSpec, scratch: Path, **k: Any) -> LogTable:
        work = self.work(table, **k)
        return LogTable(self.bench.spark, spec_of(work, work.tables[0]), scratch)

    def _reader(self, table: TableSpec) -> tuple[Relation, RowReader]:
        key = table.table_id, len(table.columns)
        if key not in self.readers:
            columns = tuple(
                RelationColumn(c.source_name, 0, -1, c.source_name in table.key)
                for c in table.columns
            )
            relation = Relation(
                table.table_id, table.source_schema, table.source_table, "d", columns
            )
            self.readers[key] = (
                relation,
                RowReader.of(relation, table.columns),
            )
        return self.readers[key]


def cut(table: TableSpec, *, load: str = "load") -> tuple[Control, ...]:
    return Control("added", table.table_id), Control("cut", table.table_id, load=load)


def numbers(found: Sequence[Segment]) -> list[int]:
    return [segment.number for segment in found]
