"""What an engine's Spark session is set to, from its heap's share of a result to the
ports of its Thrift Server. Pure; it must not know who starts engines, nor how."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from core.lake_reads import READ_SETTINGS

ENGINE_CLASS = "io.sluice.engine"
PLACES_PER_CORE = 4
# A socket takes one for as long as it is open: 200 sessions of six channels, and some
# for probes and for sessions that begin while others end. With the 500 of Hive, few
# sessions would leave no socket to cancel anything.
WORKER_THREADS = 1500


def spark_settings(run_dir: Path, *, cores: int, max_result: str) -> Mapping[str, str]:
    """Return the settings. No secret may ever stand here: SQL could show it.

    run_dir     the engine's own folder
    max_result  the most that one part of a result may have, as Spark writes it
    """
    return {
        # Small statements find a place while large ones compute: Spark takes no task
        # off its own. How a statement is split stays a matter of the cores.
        "spark.master": f"local[{PLACES_PER_CORE * cores}]",
        "spark.default.parallelism": str(cores),
        # Places that become free go to the user who has fewest, see `Statements`; if
        # none does, `FairPlaces` takes some.
        "spark.scheduler.mode": "FAIR",
        "spark.app.name": "sluice-engine",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(run_dir / "tmp"),
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
        **_sql_settings(run_dir, cores),
        "spark.driver.maxResultSize": max_result,
        **_thrift_settings(run_dir),
    }


def _sql_settings(run_dir: Path, cores: int) -> Mapping[str, str]:
    return {
        "spark.sql.extensions": (
            "org.apache.spark.sql.hudi.HoodieSparkSessionExtension,"
            f"io.sluice.lake.BatchedMerge,{ENGINE_CLASS}.GuardExtension"
        ),
        "spark.sql.catalog.spark_catalog": f"{ENGINE_CLASS}.LazyCatalog",
        "spark.sql.catalog.lake": f"{ENGINE_CLASS}.LakeCatalog",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(run_dir / "warehouse"),
        # A committed row must show in the next statement of an open session: Spark's
        # own cache knows no commits. The engine's `ListedTables` takes its place.
        "spark.sql.filesourceTableRelationCacheSize": "0",
        "spark.sql.variable.substitute": "false",
        "spark.sql.runSQLOnFiles": "false",
        "spark.sql.error.messageFormat": "PRETTY",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(max(2, cores)),
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
        "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
        "spark.sql.thriftserver.ui.retainedStatements": "20",
        "spark.sql.thriftserver.ui.retainedSessions": "20",
        "spark.sql.ui.retainedExecutions": "20",
        "hoodie.metadata.enable": "false",
        "hoodie.embed.timeline.server": "false",
        **READ_SETTINGS,
    }


def _thrift_settings(run_dir: Path) -> Mapping[str, str]:
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
        # listed when a session closes
        "hive.exec.local.scratchdir": str(run_dir / "tmp"),
        # deleted by Hive when its session closes: of one folder for all, a session
        # that was just being opened would find it gone, and not be opened
        "hive.downloaded.resources.dir": str(
            run_dir / "tmp" / "${hive.session.id}_resources"
        ),
    }
    settings = {f"spark.hadoop.{key}": value for key, value in hive.items()}
    settings["spark.sql.thriftServer.interruptOnCancel"] = "true"
    # Rows flow to the client partition by partition: collected at once, a result
    # would have to fit into the heap of an engine that others use too.
    settings["spark.sql.thriftServer.incrementalCollect"] = "true"
    return settings
