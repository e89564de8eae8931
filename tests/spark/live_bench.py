"""Tables of a live source as the gateway describes them to an engine, without Django."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ingest.contract.table import ColumnSpec
from ingest.sources.live import described_access, described_columns, relation
from ingest.sources.port import SourceAccess
from tests.spark.engine_bench import EngineBench

Named = tuple[str, str, str]


@dataclass(frozen=True)
class LiveSource:
    bench: EngineBench
    name: str
    access: SourceAccess
    connections: int = 2

    def table(
        self,
        schema: str,
        table: str,
        columns: Sequence[Named],
        *,
        split_by: str = "",
        rows: int = 0,
    ) -> None:
        """columns: name, the source's type, the lake's type."""
        kind = self.access.spec.kind
        specs = [(ColumnSpec(n, n.lower(), s, t), True) for n, s, t in columns]
        described: dict[str, Any] = {
            "parts": [self.name, schema, table],
            "kind": kind,
            "relation": relation(kind, schema, table),
            "columns": described_columns(kind, specs),
            "split_by": split_by,
            "rows": rows,
            "bytes": rows * 100,
        }
        access = described_access(self.access, connections=self.connections)
        self.bench.tell("source", table=described, access=access)
