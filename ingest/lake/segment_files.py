"""What a part of a segment holds: rows of one table as an Arrow stream, and how a
segment is put together from them in bounded memory.

What a batch of rows looks like is `ingest.sources.row_batches`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from core.errors import TerminalError
from ingest.contract.segments import Control, Segment, TablePart, part_of
from ingest.lake.chain import BODY_AT, ChainWriter, read_rows
from ingest.lake.port import Place

# Rows beyond this are written beside the segment, so that a transaction of any size
# needs no more memory.
SPILL_BYTES = 32 << 20
# Small buffers only grow by it.
_COMPRESSED_FROM = 64 << 10


def read_table(folder: Place, segment: Segment, part: TablePart) -> pa.Table:
    """The rows of one part, in the order of the source."""
    with pa.ipc.open_stream(read_rows(folder, segment, part)) as stream:
        return stream.read_all()


@dataclass(slots=True)
class _Run:
    """Rows of one table and one schema, in their order."""

    version: int
    batches: list[pa.RecordBatch] = field(default_factory=list)

    def takes(self, version: int, batch: pa.RecordBatch) -> bool:
        schema = self.batches[0].schema
        is_same = batch.schema is schema or batch.schema.equals(
            schema, check_metadata=True
        )
        return version == self.version and is_same


@dataclass(slots=True)
class SegmentBuilder:
    """Collects rows until an epoch ends. They may come in any order of tables; those of
    one table in the order of the source."""

    writer: ChainWriter
    spill_bytes: int = SPILL_BYTES
    rows: int = 0
    _bytes: int = 0
    _open: dict[int, list[_Run]] = field(default_factory=dict)
    _spilled: list[TablePart] = field(default_factory=list)
    _files: int = 0

    def add(self, table_id: int, schema_version: int, batch: pa.RecordBatch) -> None:
        """A table's later rows may have another schema."""
        runs = self._open.setdefault(table_id, [])
        if not (runs and runs[-1].takes(schema_version, batch)):
            runs.append(_Run(schema_version))
        runs[-1].batches.append(batch)
        self.rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._bytes >= self.spill_bytes:
            self._spill()

    def close(
        self, *, end: str, controls: Iterable[Control] = (), committed: int = 0
    ) -> Segment:
        """Makes the segment durable (see `ChainWriter.append`) and begins the next."""
        parts, body = self._encoded(BODY_AT, "")
        segment = self.writer.append(
            end=end,
            parts=[*self._spilled, *parts],
            body=body,
            controls=controls,
            committed=committed,
        )
        self._forget()
        self._spilled, self._files, self.rows = [], 0, 0
        return segment

    def _spill(self) -> None:
        name = self.writer.part_name(self._files)
        parts, body = self._encoded(0, name)
        if not (self.writer.folder / name).create(body):
            raise TerminalError(
                "%(name)s is there already, and a writer makes each once. Nothing"
                " was written",
                name=name,
                code="part_exists",
            )
        self._spilled += parts
        self._files += 1
        self._forget()

    def _forget(self) -> None:
        self._open, self._bytes = {}, 0

    def _encoded(self, offset: int, file: str) -> tuple[list[TablePart], bytes]:
        parts, bodies = [], []
        every = [
            (table_id, run) for table_id in self._open for run in self._open[table_id]
        ]
        for table_id, run in every:
            data = _stream(run.batches)
            part = part_of(
                table_id,
                data,
                rows=sum(batch.num_rows for batch in run.batches),
                schema_version=run.version,
                offset=offset,
                file=file,
            )
            parts.append(part)
            bodies.append(data)
            offset += part.bytes
        return parts, b"".join(bodies)


def _stream(batches: Sequence[pa.RecordBatch]) -> bytes:
    is_large = sum(batch.nbytes for batch in batches) >= _COMPRESSED_FROM
    options = pa.ipc.IpcWriteOptions(compression="zstd" if is_large else None)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return bytes(sink.getvalue())
