"""The Spark session of a driver, with every setting Hudi and our types need.

Tests use the same one. It must not know what jobs do, nor sources.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from core.class_archive import shared_classes
from core.lake_reads import READ_SETTINGS
from core.object_store import StoreAccess, hadoop_properties, is_object_uri
from ingest.contract.java import BROADCAST_MB, PAGE_MB, driver_options
from ingest.contract.job import LAKE_SECRET
from ingest.driver.apply.jobrun import JobRun
from ingest.lake.place import has_object_store, use_object_store

_NAMES = (
    "functions",
    "PythonUtils",
    "PythonSQLUtils",
    "SparkSession",
    "org.apache.spark.sql",
    "py4j.reflection.TypeUtil",
)
_OPENING = threading.Lock()
POOLS = Path(__file__).with_name("pools.xml")


@dataclass(frozen=True, slots=True)
class SessionSpec:
    """What differs between installations.

    jars     absolute paths, put on the driver's own class path (`spark.jars`
             loses Hudi after some closed sessions)
    scratch  a directory for Spark's spill files and warehouse
    """

    jars: Sequence[str]
    scratch: str
    master: str = "local[4]"
    memory: str = "1500m"
    app_name: str = "sluice-ingest"
    extra: Mapping[str, str] = field(default_factory=dict)


def start_session(spec: SessionSpec) -> SparkSession:
    """Starts the JVM. LC_ALL is set because a JVM under POSIX mangles names."""
    # Its lines carry whole commands, options included. And where a connection breaks
    # they would print a Java exception that is being handled, which asks the JVM by
    # that same connection, and so on
    logging.getLogger("py4j").setLevel(logging.WARNING)
    os.environ["LC_ALL"] = "C.UTF-8"
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(spec.master).appName(spec.app_name)
    for name, value in {**_settings(spec), **spec.extra}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    jvm: Any = spark.sparkContext._jvm
    jvm.io.sluice.lake.LogLines.takeOver()
    _keep_names(spark)
    return spark


def _keep_names(spark: SparkSession) -> None:
    """Asks once for what pyspark asks for at each use of a column or a session: the JVM
    looks for such a name in several packages, each time in every jar."""
    for path in _NAMES:
        place: Any = spark.sparkContext._jvm
        for name in path.split("."):
            found = getattr(place, name)
            setattr(place, name, found)
            place = found


def _settings(spec: SessionSpec) -> dict[str, str]:
    rebase = ("datetimeRebaseModeInWrite", "datetimeRebaseModeInRead")
    parquet = (*rebase, "int96RebaseModeInWrite", "int96RebaseModeInRead")
    return {
        "spark.driver.extraClassPath": os.pathsep.join(spec.jars),
        "spark.driver.memory": spec.memory,
        "spark.driver.extraJavaOptions": (
            f"{driver_options(spec.scratch)} {shared_classes(spec.jars)}"
        ),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": spec.scratch,
        "spark.sql.warehouse.dir": str(Path(spec.scratch) / "warehouse"),
        "spark.buffer.pageSize": f"{PAGE_MB}m",
        "spark.broadcast.blockSize": f"{BROADCAST_MB}m",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        # a record goes through a buffer as a whole; by default none of 64 MiB or more
        "spark.kryoserializer.buffer.max": "2000m",
        "spark.sql.extensions": (
            "org.apache.spark.sql.hudi.HoodieSparkSessionExtension,"
            "io.sluice.lake.BatchedMerge"
        ),
        "spark.sql.catalog.spark_catalog": (
            "org.apache.spark.sql.hudi.catalog.HoodieCatalog"
        ),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.hadoop.fs.file.impl": "io.sluice.lake.LocalFiles",
        # a replacement goes through Avro, whose older form of lists holds no NULLs
        "spark.hadoop.parquet.avro.write-old-list-structure": "false",
        **READ_SETTINGS,
        # a second attempt of a running task makes a second file group
        "spark.speculation": "false",
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": POOLS.as_uri(),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.default.parallelism": "4",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.readSideCharPadding": "false",
        "spark.sql.filesourceTableRelationCacheSize": "0",
        "spark.sql.variable.substitute": "false",
        "spark.cleaner.periodicGC.interval": "10min",
        **{f"spark.sql.parquet.{mode}": "CORRECTED" for mode in parquet},
        **{f"spark.sql.avro.{mode}": "CORRECTED" for mode in rebase},
    }


@functools.lru_cache(maxsize=4)
def heap_of(spark: SparkSession) -> int:
    """Bytes of the heap of whoever writes rows: of the driver, or of an executor where
    that has less."""
    jvm: Any = spark._jvm
    context: Any = spark.sparkContext._jsc
    heap = int(jvm.java.lang.Runtime.getRuntime().maxMemory())
    scala = context.sc()
    return heap if scala.isLocal() else min(heap, int(scala.executorMemory()) << 20)


def open_lake(run: JobRun, spark: SparkSession) -> None:
    """Open the lake's object store, for Python and for Hadoop in the JVM, before a
    job's first look at it. The first job of a driver does.

    The key comes over the control pipe and goes into the running JVM's Hadoop
    configuration only: nothing of it is in Spark's conf, arguments or files.
    """
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
