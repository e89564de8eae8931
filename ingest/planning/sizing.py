"""How big the table gets in the lake, and into how many buckets it goes. Pure.

Rules of thumb, named: they only have to be right within a factor of two, because a
bucket count that is a bit off costs little and is pinned for long.
"""

from __future__ import annotations

from catalog.schema.types import Column
from ingest.planning.facts import Choices, TableFacts
from ingest.planning.plan import Proposal

TARGET_BYTES = 128 * 1024 * 1024
# Hudi's writer looks after 100 rows first how much of a file it holds in memory. Of
# rows as wide as these that is all of the file, so it has to be a small one.
WIDE_ROW_BYTES = 256 * 1024
TARGET_BYTES_OF_WIDE_ROWS = 32 * 1024 * 1024
MOST_SMALL_BUCKETS = 200
HUDI_DEFAULT_BUCKETS = 256
PARQUET_RATIO = 0.5
META_BYTES = 24

_WIDTHS = {
    "boolean": 1,
    "int": 4,
    "bigint": 8,
    "float": 4,
    "double": 8,
    "date": 4,
    "timestamp": 8,
    "timestamp_ntz": 8,
}
_VARIABLE_WIDTH = 24


def row_width(columns: tuple[Column, ...]) -> int:
    """Bytes of one row by its types alone, when the source gave no size."""
    return sum(_WIDTHS.get(c.type, _VARIABLE_WIDTH) for c in columns)


def lake_bytes(facts: TableFacts) -> int:
    """Expected bytes of the lake table's base files."""
    rows = max(0, facts.estimated_rows)
    raw = facts.estimated_bytes or rows * row_width(facts.schema.columns)
    return int((raw + rows * META_BYTES) * PARQUET_RATIO)


def staging_bytes(facts: TableFacts) -> int:
    """Expected bytes of the staged chunks; they lie beside the table until done."""
    return lake_bytes(facts)


def propose_buckets(facts: TableFacts, choices: Choices) -> Proposal:
    """So many buckets that a file group holds about 64 to 128 MB, or 32 MB of wide
    rows. At least one."""
    size = lake_bytes(facts)
    if choices.buckets is not None:
        return Proposal(choices.buckets, "chosen", is_chosen=True)
    count = max(1, -(-size // TARGET_BYTES))
    if size > facts.estimated_rows * WIDE_ROW_BYTES > 0:
        small = -(-size // TARGET_BYTES_OF_WIDE_ROWS)
        count = max(count, min(small, MOST_SMALL_BUCKETS))
    if count == HUDI_DEFAULT_BUCKETS:
        count -= 1
    if not facts.estimated_rows and not facts.estimated_bytes:
        return Proposal(1, "the source table is empty or was never analysed")
    each = max(1, size // count // (1024 * 1024))
    return Proposal(
        count,
        f"about {facts.estimated_rows:,} rows, {max(1, size // 1_048_576):,} MB in "
        f"the lake: {each:,} MB per file group",
    )
