"""What asks a source for its high watermark, without a driver."""

from __future__ import annotations

import pytest

from ingest.contract import (
    ColumnSpec,
    FenceSpec,
    JobSpec,
    RoundWork,
    SourceSpec,
    TableSpec,
)
from ingest.spark.jobrun import JobRun

LAG = 30.0


def run_of(spec: SourceSpec, table: TableSpec, *, chosen: bool) -> JobRun:
    work = RoundWork(None, LAG, 1, lag_is_chosen=chosen)
    fence = FenceSpec("/f", 1)
    made = JobSpec("1", 1, "round", "apply", "/l", table, fence, spec, round=work)
    return JobRun(made, lambda ref: pytest.fail(f"{ref} is not asked for"))


def table_of(schema: str, cursor_type: str) -> TableSpec:
    columns = (
        ColumnSpec("id", "id", "integer", "int"),
        ColumnSpec("at", "at", cursor_type, "timestamp"),
    )
    return TableSpec(
        1, schema, "o", "shop", "o", "/p", "/s", columns, ("id",), cursor="at"
    )
