"""Opening the lake's object store in a driver: for Python, and for Hadoop in the JVM.

The key comes over the control pipe and goes into the running JVM's Hadoop
configuration only: nothing of it is in Spark's conf, arguments or files.
"""

from __future__ import annotations

import json
import threading
from typing import Any

from pyspark.sql import SparkSession

from core.object_store import StoreAccess, hadoop_properties, is_object_uri
from ingest.contract.job import LAKE_SECRET
from ingest.lake.commit.jobrun import JobRun
from ingest.lake.place import has_object_store, use_object_store

_OPENING = threading.Lock()


def open_lake(run: JobRun, spark: SparkSession) -> None:
    """Before a job's first look at its lake. The first job of a driver opens it."""
    if not is_object_uri(run.spec.lake):
        return
    with _OPENING:
        if not has_object_store():
            told = json.loads(run.secret(LAKE_SECRET).value)
            use_store(spark, StoreAccess(**told))


def use_store(spark: SparkSession, access: StoreAccess) -> None:
    context: Any = spark.sparkContext._jsc
    configuration = context.hadoopConfiguration()
    for name, value in hadoop_properties(access).items():
        configuration.set(name, value)
    use_object_store(access)
