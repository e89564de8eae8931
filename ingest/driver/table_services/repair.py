"""Repairs of a table under both of its leases.

Each step looks at the timeline first and afterwards, so that a repair that was
killed half way is simply run again. It must not know who asked or why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import SparkSession

from core.errors import InvalidRequest, TerminalError
from ingest.contract.job import JobSpec, RepairAction, RepairWork
from ingest.driver.apply.apply import roll_back_writes, write_client
from ingest.driver.apply.future import rewrite_future
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.undoing import roll_back, unschedule, unschedule_all
from ingest.driver.apply.writer import checked_state, qualified_name
from ingest.driver.capture.gate import SourceGate
from ingest.driver.table_services.chunk_repair import repair_differences
from ingest.driver.table_services.cleaning import tidy
from ingest.driver.table_services.compaction import schedule_compaction
from ingest.driver.table_services.dedupe import deduplicate
from ingest.driver.table_services.resize import resize
from ingest.driver.table_services.savepoints import make_savepoint, restore
from ingest.driver.table_services.shard_join import join_shards
from ingest.lake.commits import read_lake_table, read_properties
from ingest.lake.fence import require_fence
from ingest.lake.hudi.identity import identity_for, property_drift, put_back
from ingest.lake.layout import metadata_partitions, write_properties
from ingest.lake.place import place_at
from ingest.sources.port import SourceAccess

Access = Callable[[], tuple[SourceAccess, SourceGate]]
Repair = Callable[[JobRun, SparkSession, RepairWork, Access], dict[str, Any]]


def repair_table(run: JobRun, spark: SparkSession, access: Access) -> dict[str, Any]:
    """Kind repair; the facts of its report. `access` is called when it has to ask."""
    work = run.spec.repair or RepairWork("rollback")
    run.enter("checking")
    repair = REPAIRS.get(work.action)
    if repair is None:
        raise InvalidRequest(f"unknown repair: {work.action}", code="unknown_repair")
    return repair(run, spark, work, access)


def _roll_back(
    run: JobRun, spark: SparkSession, work: RepairWork, _: Access
) -> dict[str, Any]:
    _put_properties_back(run.spec)
    checked_state(run.spec, adds=False)
    undone = roll_back(run, spark, work)
    rewritten = rewrite_future(run, spark, clear=unschedule_all)
    return {"action": "rollback", "rolled_back": undone, **rewritten}


def _unschedule(
    run: JobRun, spark: SparkSession, work: RepairWork, _: Access
) -> dict[str, Any]:
    spec = run.spec
    checked_state(spec, adds=False)
    gone, undone = unschedule(run, spark, work.instant)
    facts = {"action": "unschedule", "unscheduled": gone, "rolled_back": undone}
    if work.replan:
        run.enter("planning", unit="plans")
        facts["planned"] = schedule_compaction(spark, spec)
    return facts


def _deduplicate(
    run: JobRun, spark: SparkSession, work: RepairWork, _: Access
) -> dict[str, Any]:
    checked_state(run.spec, adds=True)
    return deduplicate(run, spark, clear=unschedule_all)


def _resize(
    run: JobRun, spark: SparkSession, work: RepairWork, _: Access
) -> dict[str, Any]:
    return resize(run, spark, work.buckets, clear=unschedule_all)


def _drop_metadata_table(
    run: JobRun, spark: SparkSession, work: RepairWork, _: Access
) -> dict[str, Any]:
    checked_state(run.spec, adds=False)
    return drop_metadata_table(run, spark)


def _clean(
    run: JobRun, spark: SparkSession, work: RepairWork, _: Access
) -> dict[str, Any]:
    _begin(run, spark, adds=False)
    run.enter("cleaning", unit="steps")
    tidy(spark, run.spec)
    return {"action": "clean"}


def _savepoint(
    run: JobRun, spark: SparkSession, work: RepairWork, _: Access
) -> dict[str, Any]:
    _begin(run, spark, adds=True)
    unschedule_all(run, spark)
    run.enter("keeping a savepoint")
    made = make_savepoint(
        spark,
        run.spec,
        why=f"by job {run.spec.job_id}",
    )
    return {"action": "savepoint", "savepoint": made}


def _restore(
    run: JobRun, spark: SparkSession, work: RepairWork, access: Access
) -> dict[str, Any]:
    _begin(run, spark, adds=False)
    return restore(run, spark, work.instant, access=lambda: access()[0])


def _read_again(
    run: JobRun, spark: SparkSession, work: RepairWork, access: Access
) -> dict[str, Any]:
    return repair_differences(run, spark, work, *access())


def _join(
    run: JobRun, spark: SparkSession, work: RepairWork, access: Access
) -> dict[str, Any]:
    return join_shards(run, spark, work, *access())


# by the names of `ingest.contract`; a test compares them with the table actions
REPAIRS: Mapping[RepairAction, Repair] = {
    "rollback": _roll_back,
    "unschedule": _unschedule,
    "deduplicate": _deduplicate,
    "clean": _clean,
    "savepoint": _savepoint,
    "restore": _restore,
    "resize": _resize,
    "drop-metadata-table": _drop_metadata_table,
    "repair": _read_again,
    "join": _join,
}


def _begin(run: JobRun, spark: SparkSession, *, adds: bool) -> None:
    """What dead writers left goes first."""
    checked_state(run.spec, adds=adds)
    roll_back_writes(spark, run.spec, read_lake_table(run.spec.table.path))


def _put_properties_back(spec: JobSpec) -> None:
    """What another writer wrote there would have every job refused, this one too."""
    require_fence(spec.fence)
    wanted = identity_for(spec.table)
    found = read_properties(place_at(spec.table.path))
    if found is not None and property_drift(found, wanted):
        write_properties(spec.table.path, lambda text: put_back(text, wanted))


# -------------------------------------------------- metadata tables of other writers

# Ours write without one: it costs more than the commit itself. With any of them Hudi
# removes it by itself; this is for tables that nobody writes to for a while. Hudi first
# stops listing it, so that nobody believes it, then deletes it.


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
            "%(table)s still has a metadata table: %(partitions)s",
            table=qualified_name(spec),
            partitions=", ".join(left),
            code="repair_incomplete",
            hint="look whether another writer works on it, then ask again",
        )
    run.add_done(len(found))
    return {"action": "drop-metadata-table", "dropped": list(found)}
