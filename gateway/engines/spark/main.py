"""An engine process: a local Spark session, its Thrift Server and the Guard's JVM side.

Started by `gateway.engines.launch` with one argument, the path of a start file that
only this user can read. It must not know Django, grants or the metadata database: all
that comes over the control channel, which the JVM side keeps.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from core.class_archive import shared_classes
from core.lake_reads import READ_SETTINGS

ENGINE_CLASS = "io.sluice.engine"
PLACES_PER_CORE = 4
# A socket takes one for as long as it is open: 200 sessions of six channels, and some
# for probes and for sessions that begin while others end. With the 500 of Hive, few
# sessions would leave no socket to cancel anything.
WORKER_THREADS = 1500


@dataclass(frozen=True, slots=True)
class EngineStart:
    """What the launcher says. The secret and the socket are read by the JVM only.

    `store` goes into Hadoop's configuration, never into Spark's: SQL could show that.

    `memory` is the JVM heap as Spark writes it (`1g`), `java_options` further options
    of the JVM, `cores` the number of its cores, `max_result` the most that one part of
    a result may have.
    """

    path: Path
    run_dir: Path
    jars: tuple[str, ...]
    memory: str
    cores: int
    max_result: str
    java_options: str
    store: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, path: Path) -> EngineStart:
        """Read a start file; raises KeyError or ValueError when it is not one."""
        facts = json.loads(path.read_text(encoding="utf-8"))
        return cls(
            path=path,
            run_dir=Path(facts["run_dir"]),
            jars=tuple(facts["jars"]),
            memory=facts["memory"],
            cores=int(facts["cores"]),
            max_result=facts["max_result"],
            java_options=facts["java_options"],
            store=facts.get("store", {}),
        )


def spark_settings(start: EngineStart) -> Mapping[str, str]:
    """Return the engine's Spark settings. No secret may ever stand here."""
    return {
        # Small statements find a place while large ones compute: Spark takes no task
        # off its own. How a statement is split stays a matter of the cores.
        "spark.master": f"local[{PLACES_PER_CORE * start.cores}]",
        "spark.default.parallelism": str(start.cores),
        # Places that become free go to the user who has fewest, see `Statements`; if
        # none does, `FairPlaces` takes some.
        "spark.scheduler.mode": "FAIR",
        "spark.app.name": "sluice-engine",
        "spark.driver.memory": start.memory,
        "spark.driver.extraClassPath": os.pathsep.join(start.jars),
        # Hive makes a fresh configuration for the authenticator: it sees only this.
        "spark.driver.extraJavaOptions": (
            f"{start.java_options} {shared_classes(start.jars)}"
            " -Dhive.server2.custom.authentication.class="
            f"{ENGINE_CLASS}.SecretAuthenticator"
            # killed JVMs leave their unpacked libraries: not in the shared temporary
            # folder
            f' "-Djava.io.tmpdir={start.run_dir / "tmp"}"'
        ),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(start.run_dir / "tmp"),
        "spark.ui.enabled": "false",
        # What is kept of them for a page that nobody sees: each names all its parts,
        # of which a union has thousands.
        "spark.ui.retainedJobs": "50",
        "spark.ui.retainedStages": "50",
        "spark.ui.retainedTasks": "1000",
        "spark.ui.showConsoleProgress": "false",
        "spark.eventLog.enabled": "false",
        # a local master makes a secret of its own, which no setting shows
        "spark.authenticate": "true",
        "spark.plugins": f"{ENGINE_CLASS}.TaskWatch",
        "spark.speculation": "false",
        # out of memory ends the statement; where that is not enough, `Engine.lost` us
        "spark.executor.killOnFatalError.depth": "0",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        **_sql_settings(start),
        **_thrift_settings(start),
    }


def _sql_settings(start: EngineStart) -> Mapping[str, str]:
    return {
        "spark.sql.extensions": (
            "org.apache.spark.sql.hudi.HoodieSparkSessionExtension,"
            f"io.sluice.lake.BatchedMerge,{ENGINE_CLASS}.GuardExtension"
        ),
        "spark.sql.catalog.spark_catalog": f"{ENGINE_CLASS}.LazyCatalog",
        "spark.sql.catalog.lake": f"{ENGINE_CLASS}.LakeCatalog",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(start.run_dir / "warehouse"),
        # A committed row must show in the next statement of an open session: Spark's
        # own cache knows no commits. The engine's `ListedTables` takes its place.
        "spark.sql.filesourceTableRelationCacheSize": "0",
        "spark.sql.variable.substitute": "false",
        "spark.sql.runSQLOnFiles": "false",
        "spark.sql.error.messageFormat": "PRETTY",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(max(2, start.cores)),
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
        "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
        "spark.sql.thriftserver.ui.retainedStatements": "20",
        "spark.sql.thriftserver.ui.retainedSessions": "20",
        "spark.sql.ui.retainedExecutions": "20",
        "hoodie.metadata.enable": "false",
        "hoodie.enable.data.skipping": "false",
        "hoodie.embed.timeline.server": "false",
        **READ_SETTINGS,
    }


def _thrift_settings(start: EngineStart) -> Mapping[str, str]:
    hive = {
        "hive.server2.thrift.port": "0",
        "hive.server2.thrift.bind.host": "127.0.0.1",
        "hive.server2.transport.mode": "binary",
        "hive.server2.authentication": "CUSTOM",
        "hive.server2.enable.doAs": "true",
        "hive.server2.allow.user.substitution": "false",
        # Several statements share a session's socket: no long wait may hold it.
        "hive.server2.long.polling.timeout": "500ms",
        "hive.server2.logging.operation.enabled": "false",
        "hive.server2.thrift.min.worker.threads": "4",
        "hive.server2.thrift.max.worker.threads": str(WORKER_THREADS),
        "hive.exec.local.scratchdir": str(start.run_dir / "tmp" / "hive"),
        # deleted by Hive when its session closes: of one folder for all, a session
        # that was just being opened would find it gone, and not be opened
        "hive.downloaded.resources.dir": str(
            start.run_dir / "tmp" / "${hive.session.id}_resources"
        ),
    }
    settings = {f"spark.hadoop.{key}": value for key, value in hive.items()}
    settings["spark.sql.thriftServer.interruptOnCancel"] = "true"
    # Rows flow to the client partition by partition: collected at once, a result
    # would have to fit into the heap of an engine that others use too.
    settings["spark.sql.thriftServer.incrementalCollect"] = "true"
    settings["spark.driver.maxResultSize"] = start.max_result
    return settings


def start_spark(start: EngineStart) -> SparkSession:
    """Start the JVM and the session; the Guard refuses all clients from here on."""
    builder = SparkSession.builder
    for key, value in spark_settings(start).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    context: Any = spark.sparkContext._jsc
    configuration = context.hadoopConfiguration()
    for key, value in start.store.items():
        configuration.set(key, value)
    engine = _java_package(spark).Engine
    engine.prepare(str(start.path), _root(spark))
    return spark


def start_thrift_server(spark: SparkSession) -> int:
    """Listen on a free loopback port and call the gateway; return the port."""
    jvm: Any = spark.sparkContext._jvm
    hive = jvm.org.apache.spark.sql.hive.thriftserver
    server = hive.HiveThriftServer2.startWithContext(_root(spark).sqlContext())
    engine = _java_package(spark).Engine
    return int(engine.serve(server, _root(spark)))


def _root(spark: SparkSession) -> Any:
    return spark._jsparkSession


def _java_package(spark: SparkSession) -> Any:
    jvm: Any = spark.sparkContext._jvm
    return jvm.io.sluice.engine


def main(arguments: list[str]) -> int:
    """Run until the JVM ends or this process is told to end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    began = time.monotonic()
    start = EngineStart.read(Path(arguments[0]))
    (start.run_dir / "tmp").mkdir(parents=True, exist_ok=True)
    spark = start_spark(start)
    port = start_thrift_server(spark)
    sys.stdout.write(
        json.dumps({"ready": port, "seconds": round(time.monotonic() - began, 1)})
        + "\n"
    )
    sys.stdout.flush()
    jvm_process: Any = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    return int(jvm_process.wait())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
