"""Whether rows can lie in the folders of a lake table's partitions.

Looked at before a load or a sync commits. It must not know where the rows came from.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from core.errors import InvalidRequest
from core.sentences import Sentence
from ingest.contract.table import TableSpec
from ingest.driver.apply.rows import counted_signs, selected
from ingest.lake.hudi.identity import partition_columns
from ingest.planning.partitions import (
    ESCAPED,
    IN_FOLDER_OF_NULL,
    MOST_PARTITIONS,
    longest_value,
)
from ingest.sources.select import SelectedColumn, Selection

# In the place of a length: more than any text has.
_HAS_NUL = 2**31 - 1


def refuse_many_partitions(rows: DataFrame, table: TableSpec) -> None:
    """InvalidRequest `too_many_partitions` before a load commits. `rows` as the lake
    has them; counting ends at the limit."""
    columns = [F.col(f"`{name}`") for name in partition_columns(table)]
    if not columns:
        return
    found = rows.select(*columns).distinct().limit(MOST_PARTITIONS + 1).count()
    if found > MOST_PARTITIONS:
        raise InvalidRequest(
            "%(table)s has more than %(most)s different values of"
            " %(columns)s: each would be a partition of the lake table."
            " Nothing was loaded",
            table=table.at_source,
            most=f"{MOST_PARTITIONS:,}",
            columns=", ".join(table.partition_by),
            code="too_many_partitions",
            hint="remove the table and plan it partitioned by columns with few values,"
            " or not at all",
        )


def refuse_long_partitions(
    rows: DataFrame, table: TableSpec, selection: Selection
) -> None:
    """InvalidRequest `partition_too_long` for staged rows with a text that can be no
    folder: Hudi would fail half way through a write, attempt after attempt."""
    texts = _texts(table, selection)
    if not texts:
        return
    found = rows.agg(*(F.max(_folder_bytes(c)).alias(c.alias) for c in texts)).first()
    assert found is not None
    for column in texts:
        limit, longest = longest_value(column.name), int(found[column.alias] or 0)
        if longest <= limit:
            continue
        raise InvalidRequest(
            "a value of %(column)s of %(table)s %(why)s, so it"
            " can be no partition of the lake table. Nothing was written",
            column=next(c.source_name for c in table.columns if c.name == column.name),
            table=table.at_source,
            why=_what_is_wrong(longest, limit),
            code="partition_too_long",
            hint="shorten the value at the source, then resume; or remove the table"
            " and plan it partitioned by another column, or not at all",
        )


def nameless_partitions(
    rows: DataFrame, table: TableSpec, selection: Selection
) -> dict[str, int]:
    """Lake column → staged rows whose text there the lake reads as NULL. A partition is
    a folder, and an empty text lies in that of NULL."""
    return counted_signs(rows, nameless_signs(table, selection))


def nameless_signs(table: TableSpec, selection: Selection) -> list[tuple[str, Column]]:
    """Lake column → whether a staged row has such a text there."""
    return [
        (c.name, F.col(c.alias).isin(*IN_FOLDER_OF_NULL))
        for c in _texts(table, selection)
    ]


def _texts(table: TableSpec, selection: Selection) -> list[SelectedColumn]:
    columns = selected(table.partition_by, table, selection)
    return [c for c in columns if c.type == "string"]


def _folder_bytes(column: SelectedColumn) -> Column:
    text = F.col(column.alias)
    length = F.octet_length(F.regexp_replace(text, ESCAPED, "%00"))
    return F.when(F.contains(text, F.lit("\0")), F.lit(_HAS_NUL)).otherwise(length)


def _what_is_wrong(longest: int, limit: int) -> str:
    if longest == _HAS_NUL:
        return Sentence("has a NUL character, which no folder can have in its name")
    return Sentence(
        "takes %(longest)s bytes as the name of a folder, %(limit)s at most do",
        longest=f"{longest:,}",
        limit=limit,
    )
