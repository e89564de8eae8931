"""Is the source table still the one that was planned?

Compared before every read, so that a change has a name instead of a stack trace.
"""

from __future__ import annotations

from collections.abc import Callable

from core.errors import InvalidRequest
from ingest.contract import TableSpec
from ingest.spark.sources import Source


def require_columns(
    source: Source, table: TableSpec, warn: Callable[[str], None]
) -> None:
    """InvalidRequest `source_changed` when a planned column is gone or has
    another type; new columns are only reported."""
    now = source.columns(table)
    where = f"{table.source_schema}.{table.source_table}"
    problems = []
    for column in table.columns:
        if column.source_name not in now:
            problems.append(f"column {column.source_name} is gone")
        elif now[column.source_name][0] != column.source_type:
            problems.append(
                f"column {column.source_name} was {column.source_type},"
                f" is {now[column.source_name][0]}"
            )
    if problems:
        raise InvalidRequest(
            f"source table {where} changed since it was planned:"
            f" {'; '.join(problems)}. Nothing was written",
            code="source_changed",
            hint="discover the source again; a re-sync leaves out columns that are"
            " gone, other changes want the table onboarded anew",
        )
    planned = {c.source_name for c in table.columns}
    new = [name for name in now if name not in planned]
    if new:
        warn(f"{where} has columns that are not carried: {', '.join(new)}")
