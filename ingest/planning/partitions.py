"""How many partitions a lake table may have, and what a plan says of it.

Every commit of Hudi lists each partition that it wrote, and each look at the table
lists every folder: at 100,000 partitions one commit takes some 15 s to read, and
nothing of that gets better with time. It must not know how partitions are counted.
"""

from __future__ import annotations

from collections.abc import Sequence

# Thirty years of days; a commit that wrote all of them is read within two seconds.
MOST_PARTITIONS = 10_000


def why_too_many(
    partition_by: Sequence[str], *, uniques: Sequence[Sequence[str]], rows: int
) -> str:
    """Why a plan is refused before anything is read; "" when it is not. With a unique
    key among the partition columns each row has a partition of its own.

    uniques  source names of each key that no two rows share
    """
    own = next((u for u in uniques if u and set(u) <= set(partition_by)), None)
    if own is None or rows <= MOST_PARTITIONS:
        return ""
    return (
        f"partitioned by {', '.join(partition_by)}, which holds the unique key"
        f" {', '.join(own)}, each of about {rows:,} rows would have a partition of its"
        f" own; a lake table has at most {MOST_PARTITIONS:,}. Partition by a column"
        " with few values, or not at all: buckets spread the data"
    )


def what_is_counted(partition_by: Sequence[str]) -> tuple[str, ...]:
    """What a plan with partitions says."""
    if not partition_by:
        return ()
    return (
        f"the snapshot counts the values of {', '.join(partition_by)} before its commit"
        f" and is refused when they are more than {MOST_PARTITIONS:,}",
    )
