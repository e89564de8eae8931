"""What may partition a lake table, into how many folders, and what a plan says of it.

Every commit of Hudi lists each partition that it wrote, and each look at the table
lists every folder: at 100,000 partitions one commit takes some 15 s to read, and
nothing of that gets better with time. It must not know how partitions are counted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from catalog.schema.types import Column
from core.errors import InvalidRequest
from core.sentences import Sentence

# Thirty years of days; a commit that wrote all of them is read within two seconds.
MOST_PARTITIONS = 10_000
# Bytes of `column=value`, the name of a folder, on the file systems below a lake.
LONGEST_FOLDER = 255
# What Hudi writes as "%" and two digits there; a pattern of Python's and of Java's.
ESCAPED = r"[\x01-\x1f\x7f\"#%'*/:=?\\\[\]^{]"
# Texts whose folder of a partition is that of NULL; the second is its name.
IN_FOLDER_OF_NULL = ("", "__HIVE_DEFAULT_PARTITION__")
# Hudi's two writers put values of other types into different folders.
PARTITION_TYPES = ("string", "int", "bigint", "date")
# By their day, in a column of our own.
BY_DAY = ("timestamp", "timestamp_ntz")
DAY = "_sluice_day"
_LENGTH = re.compile(r"\((\d+)\)")
_MOST_BYTES_OF_A_CHARACTER = 4


def refuse_unfit(table: str, columns: Sequence[Column]) -> None:
    """InvalidRequest `bad_partition` where these, chosen to partition the lake table of
    the source table `table`, cannot."""
    fit = (*PARTITION_TYPES, *BY_DAY)
    unfit = next((c for c in columns if c.type not in fit), None)
    days = [c.source_name for c in columns if c.type in BY_DAY]
    if unfit is not None:
        why = Sentence(
            "column '%(source_name)s' of %(table)s is %(source_type)s, by"
            " which no lake table can be partitioned",
            source_name=unfit.source_name,
            table=table,
            source_type=unfit.source_type,
        )
    elif len(days) > 1:
        why = Sentence(
            "%(table)s can be partitioned by the day of one column, not of %(days)s",
            table=table,
            days=days,
        )
    else:
        return
    raise InvalidRequest(
        why,
        code="bad_partition",
        hint="partition by text, whole numbers, a date, or the day of one timestamp",
        facts={"field": "partition_by", "table": table},
    )


def longest_value(lake_name: str) -> int:
    """Bytes of a text that may still be a folder, as Hudi writes it into its name."""
    return LONGEST_FOLDER - len(f"{lake_name}=".encode())


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
    return Sentence(
        "partitioned by %(partition_by)s, which holds the unique key"
        " %(own)s, each of about %(rows)s rows would have a partition"
        " of its own; a lake table has at most %(most_partitions)s."
        " Partition by a column with few values, or not at all:"
        " buckets spread the data",
        partition_by=", ".join(partition_by),
        own=", ".join(own),
        rows=f"{rows:,}",
        most_partitions=f"{MOST_PARTITIONS:,}",
    )


def what_holds(columns: Sequence[tuple[Column, str]]) -> tuple[str, ...]:
    """What a plan with partitions says.

    columns  each with its name in the lake
    """
    if not columns:
        return ()
    named = ", ".join(_named(column) for column, _ in columns)
    found = [
        Sentence(
            "the snapshot counts the values of %(named)s before its commit"
            " and is refused when they are more than %(most_partitions)s",
            named=named,
            most_partitions=f"{MOST_PARTITIONS:,}",
        )
    ]
    for column, name in columns:
        if column.type in BY_DAY:
            found.append(
                Sentence(
                    "partitioned by %(column)s in UTC, which is the lake table's"
                    " column %(day)s: a query that has a condition on it, too,"
                    " reads the folders of those days only",
                    column=_named(column),
                    day=DAY,
                )
            )
        elif _may_be_too_long(column, name):
            found.append(
                Sentence(
                    "each value of '%(source_name)s' is a folder of the lake, so a"
                    " load or a sync that meets one of more than %(name)s bytes is"
                    " refused (some characters, as / and :, count as three)",
                    source_name=column.source_name,
                    name=longest_value(name),
                )
            )
    return tuple(found)


def _named(column: Column) -> str:
    name = column.source_name
    return Sentence("the day of %(name)s", name=name) if column.type in BY_DAY else name


def _may_be_too_long(column: Column, name: str) -> bool:
    if column.type != "string" or column.source_type == "uuid":
        return False
    declared = _LENGTH.search(column.source_type)
    most = int(declared[1]) * _MOST_BYTES_OF_A_CHARACTER if declared else None
    return most is None or most > longest_value(name)
