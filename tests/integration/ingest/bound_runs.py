"""Syncs that ask a source something, without a driver."""

from __future__ import annotations

import pytest

from ingest.contract.job import JobSpec, SyncWork
from ingest.contract.table import ColumnSpec, FenceSpec, SourceSpec, TableSpec
from ingest.driver.apply.jobrun import JobRun

LAG = 30.0


def run_of(spec: SourceSpec, table: TableSpec, *, chosen: bool) -> JobRun:
    return run_with(SyncWork(None, LAG, lag_is_chosen=chosen), table, spec)


def run_with(
    work: SyncWork, table: TableSpec, source: SourceSpec | None = None
) -> JobRun:
    fence = FenceSpec("/f", 1)
    made = JobSpec("1", 1, "sync", "apply", "/l", table, fence, source, sync=work)
    return JobRun(made, lambda ref: pytest.fail(f"{ref} is not asked for"))


def table_of(
    schema: str, cursor_type: str, *others: ColumnSpec, name: str = "o"
) -> TableSpec:
    """Columns `id` and `at`, then the others."""
    columns = (
        ColumnSpec("id", "id", "integer", "int"),
        ColumnSpec("at", "at", cursor_type, "timestamp"),
        *others,
    )
    return TableSpec(
        1, schema, name, "shop", "o", "/p", "/s", columns, ("id",), cursor="at"
    )
