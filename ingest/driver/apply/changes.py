"""Files of changes that were merged from a log, as Spark reads them."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.contract.events import INDEX, OP


def change_fields() -> tuple[T.StructField, ...]:
    """What a file of changes has beside the columns of its rows."""
    return T.StructField(OP, T.StringType()), T.StructField(INDEX, T.LongType())


def change_seq() -> Column:
    """`_sluice_seq` of a change."""
    return F.coalesce(INDEX, F.lit(0)).cast("bigint")


def is_delete() -> Column:
    return F.coalesce(F.col(OP) == "delete", F.lit(False))  # noqa: FBT003
