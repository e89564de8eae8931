"""Cleaning and archiving: what no reader needs any more goes; the timeline stays short.

Which files that is: `ingest.lake.hudi.keeping`. Each cleaning leaves an instant, also
where no file goes, since the newest one has to be on the active timeline: it says to
time travel how far back the files reach, and to the archiver which replacements are
cleaned. So a table is cleaned first, then archived.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession

from ingest.contract import members
from ingest.contract.job import JobSpec
from ingest.driver.apply.apply import write_client
from ingest.driver.table_services.savepoints import drop_old_savepoints
from ingest.lake.commits import read_lake_table, read_timeline, timeline_at
from ingest.lake.fence import require_fence
from ingest.lake.hudi.keeping import EXTRA_KEY, VERSION, is_tidying_due, next_cleaning
from ingest.lake.hudi.options import ARCHIVED_DOWN_TO
from ingest.lake.hudi.timeline import Timeline
from ingest.lake.layout import remove_strays
from ingest.lake.place import place_at
from ingest.lake.upkeep import read_kept, read_written

# Commits after a cleaning behind which a sync tidies again.
TIDY_EACH = 40
# Paths of tables that a job of this driver cleans.
_TIDIED_NOW: set[str] = set()
_ONE = threading.Lock()


def tidy(spark: SparkSession, spec: JobSpec) -> None:
    """Stray files, old file versions, instants and savepoints go, under the fence. What
    a query that began within `keep_seconds` may read stays."""
    require_fence(spec.fence)
    remove_strays(spec.table.path, read_lake_table(spec.table.path).timeline)
    _clean(spark, spec, savepoints=True)


def tidy_when_due(
    spark: SparkSession, spec: JobSpec, timeline: Timeline | None = None
) -> bool:
    """After a commit of a sync: old file versions and instants go by the number of
    commits, whether or not a compaction is affordable. Whether it was time.

    Only where one driver writes the table: no other one cleans it meanwhile.
    """
    timeline = timeline or timeline_at(spec.table.path)
    is_due = is_tidying_due(timeline, each=TIDY_EACH, beyond=ARCHIVED_DOWN_TO)
    if spec.table.lock or not is_due:
        return False
    return _clean(spark, spec, savepoints=False)


def _clean(spark: SparkSession, spec: JobSpec, *, savepoints: bool) -> bool:
    """False while another job of this driver does so: two are in each other's way."""
    with _ONE:
        if spec.table.path in _TIDIED_NOW:
            return False
        _TIDIED_NOW.add(spec.table.path)
    try:
        with write_client(spark, spec) as client:
            if savepoints:
                drop_old_savepoints(client, spec)
            _clean_files(spark, spec, client)
            client.archive()
    finally:
        _TIDIED_NOW.discard(spec.table.path)
    return True


def _clean_files(spark: SparkSession, spec: JobSpec, client: Any) -> None:
    jvm: Any = spark._jvm
    cleaning = jvm.io.sluice.lake.Cleaning
    cleaning.finishBegun(client)
    base = place_at(spec.table.path)
    timeline = read_timeline(base)
    if not timeline.completed_writes:
        return
    before = read_kept(base, timeline)
    # behind the listing: who begins to read now finds what it shows as completed
    now = datetime.now(UTC)
    found = next_cleaning(before, timeline, seconds=spec.keep_seconds, now=now)
    counted, _ = read_written(base, timeline, before.counted)
    kept = replace(found.kept, counted=counted)
    notes = {EXTRA_KEY: members.encode(kept, version=VERSION)}
    cleaning.clean(client, kept.first, found.looks, notes)
