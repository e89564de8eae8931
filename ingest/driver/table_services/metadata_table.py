"""Removing a metadata table that another writer made, by Hudi's own way.

Ours write without one: it costs more than the commit itself. With any of them Hudi
removes it by itself; this is for tables that nobody writes to for a while. Hudi first
stops listing it, so that nobody believes it, then deletes it.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from core.errors import TerminalError
from ingest.driver.apply.apply import write_client
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.writer import qualified_name
from ingest.lake.fence import require_fence
from ingest.lake.layout import metadata_partitions
from ingest.lake.place import place_at


def drop_metadata_table(run: JobRun, spark: SparkSession) -> dict[str, Any]:
    """Nothing happens where there is none, so it can be repeated after a kill."""
    spec = run.spec
    base = place_at(spec.table.path)
    found = metadata_partitions(base)
    run.enter("removing the metadata table", total=len(found), unit="partitions")
    if found:
        jvm: Any = spark._jvm
        with write_client(spark, spec) as client:
            table = jvm.org.apache.hudi.table.HoodieSparkTable.create(
                client.getConfig(), client.getEngineContext()
            )
            require_fence(spec.fence)
            jvm.org.apache.hudi.metadata.HoodieTableMetadataUtil.deleteMetadataTable(
                table.getMetaClient(),
                client.getEngineContext(),
                False,  # noqa: FBT003 - no copy of it is kept
            )
    if left := metadata_partitions(base):
        raise TerminalError(
            f"{qualified_name(spec)} still has a metadata table: {', '.join(left)}",
            code="repair_incomplete",
            hint="look whether another writer works on it, then ask again",
        )
    run.add_done(len(found))
    return {"action": "drop-metadata-table", "dropped": list(found)}
