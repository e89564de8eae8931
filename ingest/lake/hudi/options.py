"""From an identity to complete Hudi options; every trap we met is closed here.

Pure. It must not know Spark: callers pass the mapping to a writer or session.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import msgspec

from core.errors import TerminalError
from core.lake_reads import LOG_BUFFER
from ingest.contract import members
from ingest.lake.hudi.identity import LOCK_PROVIDER, SHARED_LOCK_PROVIDER, TableIdentity
from ingest.lake.hudi.layout import GroupKey

EXTRA_KEY = "_sluice"
VERSION = 1


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """Where the rows of a load were read, of a table that is followed by its log.

    at        position: all that the load shows was committed before it
    snapshot  which transactions it shows, as the source's kind says it; segments that
              begin before `at` have them once more, and they are dropped there. "" =
              its chunks show several moments: all that the log has since the load's cut
              is applied, which is exact where the log has whole rows
    """

    at: str
    snapshot: str


class CommitPosition(
    msgspec.Struct,
    frozen=True,
    rename={"start": "from", "end": "to"},
    omit_defaults=True,
):
    """One commit's way: source positions, epochs, and who wrote it.

    source      datasource id
    start, end  source positions as text; "" = none (start of a load)
    run         job id of the writer
    fence       token under which it wrote
    load        of the newest load, until everything up to its `at` is applied
    load_name   of a load's own commit: which load it is, over all of its jobs
    unsent      source names of columns that the log brought to the table, and that no
                row of it had by then: rows from before them may come yet
    """

    source: int
    start: str
    end: str
    epoch_from: int
    epoch_to: int
    run: str
    fence: int
    identity: TableIdentity
    load: LoadPoint | None = None
    load_name: str = ""
    unsent: tuple[str, ...] = ()


def encode_position(position: CommitPosition) -> str:
    return members.encode(position, version=VERSION)


def decode_position(text: str) -> CommitPosition:
    """Members that are not known are ignored. TerminalError `unknown_position` when it
    is damaged, or of a newer version."""
    try:
        return members.decode(CommitPosition, text, newest=VERSION)
    except ValueError as error:
        raise TerminalError(
            "the position in the lake's last commit cannot be read: %(error)s",
            error=error,
            code="unknown_position",
            hint="run this table with the release that wrote it, or a newer one",
        ) from error


def latest(positions: Iterable[CommitPosition]) -> CommitPosition | None:
    """The furthest of positions whose order is not known."""
    return max(positions, key=lambda p: (p.epoch_to, p.fence), default=None)


Operation = Literal["bulk_insert", "upsert", "insert_overwrite_table"]

_PARTIAL_PAYLOAD = "org.apache.hudi.common.model.PartialUpdateAvroPayload"

TOKEN_OPTION = "hoodie.write.lock.sluice.token"
FENCE_OPTION = "hoodie.write.lock.sluice.fence"
CHOSEN_OPTION = "hoodie.compaction.sluice.groups"
# commits that archiving leaves: readers of positions and causes look at the newest
ARCHIVED_DOWN_TO = 20


@dataclass(frozen=True, slots=True)
class SharedLock:
    """hosts: host:port, …; folder: below which all locks lie; name: of this one."""

    hosts: str
    folder: str
    name: str


@dataclass(frozen=True, slots=True)
class WriterFence:
    """What the lock provider compares: the fence file and this writer's token.

    shared  for tables with a shared lock where and by what name; None = the lock
            is this driver's own
    """

    path: str
    token: int
    shared: SharedLock | None = None


def write_options(
    identity: TableIdentity,
    *,
    name: str,
    fence: WriterFence,
    operation: Operation,
    position: str,
) -> dict[str, str]:
    """Options of one DataFrame write.

    name      the table's name inside Hudi
    position  encoded `_sluice` value, stored atomically with the data
    """
    options = {
        **table_options(identity, name=name),
        **concurrency_options(fence),
        "hoodie.datasource.write.operation": operation,
        EXTRA_KEY: position,
        "hoodie.compact.inline": "false",
        # a compaction is planned after the commit, from what lies there then
        "hoodie.compact.schedule.inline": "false",
    }
    if operation == "bulk_insert" and identity.partial_update_mode:
        # Hudi takes the mode from nowhere else: at the creation of a table it
        # translates this class into it. On an upsert the class would break deletes.
        options["hoodie.datasource.write.payload.class"] = _PARTIAL_PAYLOAD
    if operation == "upsert":
        options["hoodie.combine.before.upsert"] = "true"
    else:
        options["hoodie.datasource.write.row.writer.enable"] = "true"
        if operation == "insert_overwrite_table":
            # by it Hudi's bulk writer knows that the new rows replace the others
            options["hoodie.bulkinsert.overwrite.operation.type"] = operation
            # a re-sync may leave out what the source no longer has
            allowed = "hoodie.datasource.write.schema.allow.auto.evolution.column.drop"
            options[allowed] = "true"
        options["hoodie.combine.before.insert"] = "false"
    return options


def table_options(identity: TableIdentity, *, name: str) -> dict[str, str]:
    """What defines the table, passed on every write because Hudi forgets half."""
    return {
        "hoodie.table.name": name,
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.recordkey.field": ",".join(identity.record_key),
        "hoodie.datasource.write.partitionpath.field": ",".join(identity.partition_by),
        "hoodie.datasource.write.keygenerator.class": _key_generator(identity),
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": "true",
        "hoodie.table.ordering.fields": identity.ordering,
        "hoodie.write.record.merge.mode": identity.merge_mode,
        "hoodie.payload.delete.field": identity.delete_field,
        "hoodie.payload.delete.marker": identity.delete_marker,
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": "SIMPLE",
        "hoodie.bucket.index.num.buckets": str(identity.buckets),
        "hoodie.bucket.index.hash.field": ",".join(identity.record_key),
        "hoodie.write.table.version": str(identity.table_version),
        "hoodie.write.auto.upgrade": "false",
        "hoodie.metadata.enable": str(identity.metadata_table).lower(),
        # a plan may leave file groups out: the next one must look at partitions that
        # nobody wrote to since, too
        "hoodie.table.services.incremental.enabled": "false",
        # a column missing from a batch must fail, not become NULL in alive rows
        "hoodie.write.set.null.for.missing.columns": "false",
        **_COST_OPTIONS,
    }


def concurrency_options(fence: WriterFence) -> dict[str, str]:
    """Lock and concurrency, equal for ingest, compaction, clean and rollback."""
    return {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.clean.failed.writes.policy": "LAZY",
        **_lock_options(fence.shared),
        TOKEN_OPTION: str(fence.token),
        FENCE_OPTION: fence.path,
        # a refused writer must fail now: with the defaults it retries for minutes
        "hoodie.write.lock.num_retries": "0",
        "hoodie.write.lock.client.num_retries": "0",
        "hoodie.write.lock.wait_time_ms": "60000",
        # would replace our provider by one without a fence
        "hoodie.auto.adjust.lock.configs": "false",
        "hoodie.write.rolling.metadata.keys": EXTRA_KEY,
        "hoodie.client.heartbeat.interval_in_ms": "10000",
    }


def _lock_options(shared: SharedLock | None) -> dict[str, str]:
    if shared is None:
        return {
            "hoodie.write.lock.provider": LOCK_PROVIDER,
            # twice in each commit Hudi waits until no other host's clock can be behind
            # its own; here one driver writes, and its clock goes on by itself
            "hoodie.time.generator.max_expected_clock_skew_ms": "2",
        }
    return {
        "hoodie.write.lock.provider": SHARED_LOCK_PROVIDER,
        "hoodie.write.lock.zookeeper.url": shared.hosts,
        "hoodie.write.lock.zookeeper.base_path": shared.folder,
        "hoodie.write.lock.zookeeper.lock_key": shared.name,
    }


def service_options(
    identity: TableIdentity, *, name: str, fence: WriterFence
) -> dict[str, str]:
    """Session options of compaction, cleaning and archiving.

    They go into a session's conf, never into a procedure's option string: that
    one splits on commas, and drops the lock.
    """
    return {
        **table_options(identity, name=name),
        **concurrency_options(fence),
        "hoodie.compact.inline": "false",
        "hoodie.compact.schedule.inline": "false",
        # which instant cleaning goes down to is given to it (`keeping`), and it looks
        # at all partitions: the instants that would name some are archived
        "hoodie.clean.commits.retained": "1",
        "hoodie.clean.incremental.enabled": "false",
        "hoodie.keep.min.commits": str(ARCHIVED_DOWN_TO),
        "hoodie.keep.max.commits": str(ARCHIVED_DOWN_TO + 1),
    }


def chosen_options(groups: Iterable[GroupKey]) -> dict[str, str]:
    """For a compaction that is planned: of these file groups, of no others."""
    return {
        "hoodie.compaction.strategy": "io.sluice.lake.ChosenGroups",
        CHOSEN_OPTION: "\n".join(sorted(f"{part}/{name}" for part, name in groups)),
    }


# Measured: these make a small commit three times as fast on a file lake. Cleaning
# and archiving run in the maintenance lane under the service lease.
_COST_OPTIONS = {
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.parquet.compression.codec": "zstd",
    # the bucket index finds files by hash, nobody asks the bloom filter. It cannot
    # be left out of a load, so it is made as cheap as can be: one hash per key
    "hoodie.parquet.bloom.filter.enabled": "false",
    "hoodie.bloom.index.filter.type": "SIMPLE",
    "hoodie.index.bloom.num_entries": "1000",
    "hoodie.index.bloom.fpp": "0.5",
    "hoodie.datasource.hive_sync.enable": "false",
    # a block lies in memory whole, three times while it is written: its bytes, those of
    # the buffer that grows for them, and the copy that goes to the file
    "hoodie.logfile.data.block.max.size": str(16 << 20),
    **LOG_BUFFER,
}


def _key_generator(identity: TableIdentity) -> str:
    if not identity.partition_by:
        return "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
    if len(identity.partition_by) == 1 and len(identity.record_key) == 1:
        return "org.apache.hudi.keygen.SimpleKeyGenerator"
    return "org.apache.hudi.keygen.ComplexKeyGenerator"
