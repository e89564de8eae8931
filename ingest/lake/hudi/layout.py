"""File groups and slices of a Hudi table, from its file names and its timeline.

Names: `<file id>_<token>_<instant>.parquet`, `.<file id>_<instant>.log.<n>_<token>`.
Pure: who lists the folders is `ingest.lake`. It must not know sizes that are good.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from ingest.lake.hudi.timeline import Timeline

_BASE = re.compile(r"([0-9a-zA-Z-]+)_[0-9-]+_(\d{17})\.parquet")
_LOG = re.compile(r"\.([0-9a-zA-Z-]+)_(\d{17})\.log\.\d+(?:_[0-9-]+)?(?:\.cdc)?")
_BUCKET = re.compile(r"(\d{8})-")

GroupKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class TableFile:
    """One file below the table; `partition` is its folder, "" for the table's own."""

    partition: str
    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class DataFile:
    kind: Literal["base", "log"]
    file_id: str
    instant: str


@dataclass(frozen=True, slots=True)
class FileGroup:
    """A live file group: its newest base file and the log files readers merge in.

    base        name of the base file, "" while there are log files only
    oldest_log  the instant that wrote the oldest of these log files, "" without any
    """

    partition: str
    file_id: str
    base: str = ""
    base_instant: str = ""
    base_bytes: int = 0
    log_files: int = 0
    log_bytes: int = 0
    oldest_log: str = ""

    @property
    def bucket(self) -> int | None:
        return bucket_of(self.file_id)


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """What a compaction will merge. `is_readable` False: its request file is gone or
    damaged, so Hudi can neither execute nor undo it."""

    groups: frozenset[GroupKey] = frozenset()
    log_files: int = 0
    log_bytes: int = 0
    is_readable: bool = True


@dataclass(frozen=True, slots=True)
class Twins:
    """Base files of one file group and one instant: tasks of a superseded writer went
    on after the commit. The commit lists the one that counts."""

    partition: str
    file_id: str
    instant: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """What readers need, what cleaning will remove, what unfinished writes left."""

    groups: tuple[FileGroup, ...] = ()
    old_files: int = 0
    old_bytes: int = 0
    unfinished_files: int = 0
    unfinished_bytes: int = 0
    twins: tuple[Twins, ...] = ()

    @property
    def conflicts(self) -> dict[tuple[str, int], tuple[str, ...]]:
        """Buckets with several file groups: Hudi refuses to write there."""
        found: dict[tuple[str, int], list[str]] = defaultdict(list)
        for group in self.groups:
            if group.bucket is not None:
                found[(group.partition, group.bucket)].append(group.file_id)
        return {k: tuple(sorted(ids)) for k, ids in found.items() if len(ids) > 1}


def parse_file(name: str) -> DataFile | None:
    """None for anything that holds no rows."""
    if found := _BASE.fullmatch(name):
        return DataFile("base", found[1], found[2])
    if found := _LOG.fullmatch(name):
        return DataFile("log", found[1], found[2])
    return None


def bucket_of(file_id: str) -> int | None:
    found = _BUCKET.match(file_id)
    return int(found[1]) if found else None


def layout_of(
    files: Iterable[TableFile],
    timeline: Timeline,
    replaced: Mapping[GroupKey, str],
) -> Layout:
    """`replaced`: groups that a completed replacement took away, by its instant."""
    seen = _Seen(timeline)
    by_group: dict[GroupKey, list[tuple[DataFile, TableFile]]] = defaultdict(list)
    unfinished = [0, 0]
    old = [0, 0]
    for file in files:
        data = parse_file(file.name)
        if data is None:
            continue
        key = (file.partition, data.file_id)
        if not seen.is_committed(data.instant):
            _count(unfinished, file)
        elif key in replaced:
            _count(old, file)
        else:
            by_group[key].append((data, file))
    groups = [_group(key, found, seen, old) for key, found in by_group.items()]
    return Layout(
        tuple(sorted(groups, key=lambda g: (g.partition, g.file_id))),
        old_files=old[0],
        old_bytes=old[1],
        unfinished_files=unfinished[0],
        unfinished_bytes=unfinished[1],
        twins=tuple(twin for one in by_group.items() for twin in _twins(*one)),
    )


def _twins(key: GroupKey, found: list[tuple[DataFile, TableFile]]) -> Iterator[Twins]:
    names: dict[str, list[str]] = defaultdict(list)
    for data, file in found:
        if data.kind == "base":
            names[data.instant].append(file.name)
    for instant, of_one in names.items():
        if len(of_one) > 1:
            yield Twins(*key, instant, tuple(sorted(of_one)))


class _Seen:
    """Which instants count. Those before the active timeline are archived, and
    whatever of them was not completed had been removed by then."""

    def __init__(self, timeline: Timeline) -> None:
        self._completed = {
            i.asked: i.completed for i in timeline.instants if i.state == "COMPLETED"
        }
        self._known = {i.asked for i in timeline.instants}
        self._first = min(self._known, default="")

    def is_committed(self, asked: str) -> bool:
        return asked in self._completed or (
            asked not in self._known and asked < self._first
        )

    def completed(self, asked: str) -> str:
        return self._completed.get(asked, asked)


def _group(
    key: GroupKey,
    found: list[tuple[DataFile, TableFile]],
    seen: _Seen,
    old: list[int],
) -> FileGroup:
    bases = [(d.instant, f) for d, f in found if d.kind == "base"]
    newest, base = max(bases, key=lambda b: b[0], default=("", None))
    logs: list[tuple[str, TableFile]] = []
    for data, file in found:
        if data.kind == "log" and seen.completed(data.instant) > newest:
            logs.append((data.instant, file))
        elif file is not base:
            _count(old, file)
    return FileGroup(
        key[0],
        key[1],
        base=base.name if base else "",
        base_instant=newest,
        base_bytes=base.bytes if base else 0,
        log_files=len(logs),
        log_bytes=sum(f.bytes for _, f in logs),
        oldest_log=min((asked for asked, _ in logs), default=""),
    )


def _count(total: list[int], file: TableFile) -> None:
    total[0] += 1
    total[1] += file.bytes
