"""What lies below a lake table: its files, its compaction plans, what was replaced.

No JVM, as in `ingest.lake.commits`. What the names mean is `ingest.lake.hudi.layout`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from core.errors import TerminalError
from ingest.lake.commits import read_properties, record_of
from ingest.lake.hudi.layout import (
    CompactionPlan,
    FileGroup,
    GroupKey,
    Layout,
    TableFile,
    layout_of,
    parse_file,
)
from ingest.lake.hudi.timeline import Timeline
from ingest.lake.place import place_at
from ingest.lake.port import Place, folder_order

META = ".hoodie"
# Of partitions that a page of file groups has read: it reads no further one then.
MOST_FILES = 10_000


def read_layout(path: str, timeline: Timeline) -> Layout:
    base = place_at(path)
    return layout_of(list_files(base), timeline, read_replaced(base, timeline))


@dataclass(frozen=True, slots=True)
class GroupPage:
    """groups: may be fewer than asked for, or none. after: where the next page goes
    on; None = this was the last."""

    groups: tuple[FileGroup, ...]
    after: GroupKey | None


def read_groups(
    path: str, timeline: Timeline, *, size: int, after: GroupKey | None = None
) -> GroupPage:
    """Live file groups behind `after`, partition by partition: reads the partitions
    that the page shows, and ends it before a further one after `MOST_FILES` files."""
    base = place_at(path)
    replaced = read_replaced(base, timeline)
    start, behind = after or ("", "")
    found: list[FileGroup] = []
    looked = 0
    listing = list_files(base, start=start)
    for partition, files in groupby(listing, key=lambda file: file.partition):
        if folder_order(partition) < folder_order(start):
            # beside the partitions: an object store lists by whole names, so that files
            # of the table's own folder come between, which the first page had
            continue
        if len(found) >= size or looked >= MOST_FILES:
            return GroupPage(tuple(found), (partition, ""))
        listed = list(files)
        looked += len(listed)
        groups = layout_of(listed, timeline, replaced).groups
        found += [g for g in groups if partition != start or g.file_id > behind]
        if len(found) > size:
            last = found[size - 1]
            return GroupPage(tuple(found[:size]), (last.partition, last.file_id))
        start, behind = partition, ""
    return GroupPage(tuple(found), None)


def list_files(base: Place, *, start: str = "") -> Iterator[TableFile]:
    """Every file of every partition from `start` on; nothing of the table's own folder
    `.hoodie`."""
    for file in base.files(leave_out=META, start=start):
        folder, _, name = file.path.rpartition("/")
        yield TableFile(folder, name, file.size)


def read_replaced(base: Place, timeline: Timeline) -> dict[GroupKey, str]:
    """File groups that completed replacements took away, until they are cleaned."""
    found: dict[GroupKey, str] = {}
    for instant in timeline.instants:
        if instant.state == "COMPLETED" and instant.file_name.endswith("replacecommit"):
            record = _read_avro(base / META / "timeline" / instant.file_name) or {}
            parts = record.get("partitionToReplaceFileIds") or {}
            for partition, ids in parts.items():
                found |= dict.fromkeys(((partition, i) for i in ids), instant.asked)
    return found


def metadata_partitions(base: Place) -> tuple[str, ...]:
    """Of Hudi's own index beside the data, () without one. Readers that find it listed
    believe it, whoever keeps it up."""
    said = (read_properties(base) or {}).get("hoodie.table.metadata.partitions", "")
    listed = tuple(part for part in said.split(",") if part)
    if listed or not (base / META / "metadata").exists():
        return listed
    return ("files",)


def read_compaction_plan(path: str, asked: str) -> CompactionPlan:
    timeline = place_at(path) / META / "timeline"
    try:
        record = _read_avro(timeline / f"{asked}.compaction.requested")
    except TerminalError:
        record = None
    if record is None:
        return CompactionPlan(is_readable=False)
    operations = record.get("operations") or []
    sizes = (
        (o.get("metrics") or {}).get("TOTAL_LOG_FILES_SIZE", 0) for o in operations
    )
    return CompactionPlan(
        frozenset((o.get("partitionPath") or "", o["fileId"]) for o in operations),
        sum(len(o.get("deltaFilePaths") or ()) for o in operations),
        int(sum(sizes)),
    )


@dataclass(frozen=True, slots=True)
class BegunRollback:
    """A rollback that never completed: its instant, and what it undoes."""

    instant: str
    undoes: str
    action: str


def read_begun_rollbacks(path: str, timeline: Timeline) -> tuple[BegunRollback, ...]:
    found = []
    for instant in timeline.instants:
        if instant.action == "rollback" and instant.state != "COMPLETED":
            name = f"{instant.asked}.rollback.requested"
            record = _read_avro(place_at(path) / META / "timeline" / name) or {}
            undoes = record.get("instantToRollback") or {}
            made = BegunRollback(
                instant.asked,
                str(undoes.get("commitTime") or ""),
                str(undoes.get("action") or ""),
            )
            found.append(made)
    return tuple(found)


def read_begun_restore(path: str, timeline: Timeline) -> str:
    """The savepoint that a restore which never completed goes back to; "" when there is
    none of either, or it does not tell."""
    begun = [i for i in timeline.instants if i.action == "restore" and not i.completed]
    record: dict[str, Any] | None = None
    for instant in begun:
        name = f"{instant.asked}.restore.requested"
        with contextlib.suppress(TerminalError):
            record = _read_avro(place_at(path) / META / "timeline" / name)
    wanted = str((record or {}).get("savepointToRestoreTimestamp") or "")
    return wanted if wanted in timeline.savepoints else ""


def remove_attempt(path: str, asked: str) -> list[str]:
    """Takes away what an attempt of this instant wrote and then its files on the
    timeline, in this order, so that it can be cut off and repeated. For an instant
    that Hudi cannot undo itself, under both fences; the names of what went."""
    gone = remove_written(path, asked)
    meta = place_at(path) / META
    (meta / ".temp" / asked).delete_all()
    for state in ("inflight", "requested"):
        (meta / "timeline" / f"{asked}.compaction.{state}").delete()
    return gone


def remove_written(path: str, asked: str) -> list[str]:
    """Takes away the base files of an instant that never completed, by their names,
    under both fences; the names of what went."""
    base = place_at(path)
    gone = []
    for file in list(list_files(base)):
        data = parse_file(file.name)
        if data is not None and data.kind == "base" and data.instant == asked:
            name = f"{file.partition}/{file.name}".lstrip("/")
            (base / name).delete()
            gone.append(name)
    return gone


def write_properties(path: str, change: Callable[[str], str]) -> None:
    """`hoodie.properties` by its own text, at once."""
    meta = place_at(path) / META
    place = meta / "hoodie.properties"
    text = (place.read() or b"").decode()
    # Hadoop's checksum of a local file; without one it is not checked
    (meta / ".hoodie.properties.crc").delete()
    place.replace(change(text))


def remove_half_savepoints(path: str) -> None:
    """Takes away savepoints that a dead driver began to make, or to end, and never
    got done with: where one is Hudi makes none. Under the write fence."""
    timeline = place_at(path) / META / "timeline"
    names = timeline.names()
    whole = Timeline.of(names).savepoints
    for name in names:
        asked, _, kind = name.partition(".")
        if kind == "savepoint.inflight" and asked not in whole:
            (timeline / name).delete()


def remove_strays(path: str, timeline: Timeline) -> list[str]:
    """Deletes base files that a superseded writer finished after the commit of its
    instant, which lists others in their place; the names of what went."""
    base = place_at(path)
    gone = []
    for twins in read_layout(path, timeline).twins:
        instant = timeline.find(twins.instant)
        if instant is None or instant.state != "COMPLETED":
            continue
        listed = _written(base / META / "timeline" / instant.file_name)
        if listed.isdisjoint(twins.names):
            continue
        for name in set(twins.names) - listed:
            where = f"{twins.partition}/{name}".lstrip("/")
            (base / where).delete()
            gone.append(where)
    return gone


def _written(place: Place) -> set[str]:
    """Names of the files that a completed commit wrote."""
    parts = (_read_avro(place) or {}).get("partitionToWriteStats") or {}
    stats = (stat for of_one in parts.values() for stat in of_one)
    return {str(stat.get("path") or "").rpartition("/")[2] for stat in stats}


def _read_avro(place: Place) -> dict[str, Any] | None:
    """None when the file is not there."""
    found = place.read()
    return None if found is None else record_of(found, of=place.name)
