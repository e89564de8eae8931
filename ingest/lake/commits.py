"""Reading a Hudi table's state from its files: timeline, positions, properties.

No JVM: services, pages and drivers read the lake's truth in milliseconds. Files
of completed instants are Avro (timeline layout 2, table versions 8 and 9).
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import fastavro

from core.errors import TerminalError, TransientError
from core.sentences import Sentence
from ingest.lake.hudi.options import EXTRA_KEY, CommitPosition, decode_position, latest
from ingest.lake.hudi.properties import pairs_in
from ingest.lake.hudi.timeline import Instant, Timeline
from ingest.lake.place import place_at
from ingest.lake.port import Place


@dataclass(frozen=True, slots=True)
class Commit:
    """A completed instant with what its file says."""

    instant: Instant
    operation: str
    position: CommitPosition | None
    schema: str = ""
    rows_written: int = 0
    rows_deleted: int = 0
    bytes_written: int = 0

    @property
    def is_write(self) -> bool:
        """Of ours, and no compaction: that one may carry older columns on."""
        return self.position is not None and self.instant.action != "compaction"

    @property
    def columns(self) -> dict[str, bool]:
        """Lake name → may it be NULL; {} when it carries no schema."""
        fields = json.loads(self.schema)["fields"] if self.schema else ()
        return {
            f["name"]: isinstance(f["type"], list) and "null" in f["type"]
            for f in fields
        }


@dataclass(frozen=True, slots=True)
class LakeState:
    """A table as the lake shows it now.

    exists    the table was created (it may have no completed commit)
    commits   newest completion first, as many as were needed
    columns   of the newest schema: lake name → may it be NULL
    """

    exists: bool
    timeline: Timeline = field(default_factory=Timeline)
    commits: tuple[Commit, ...] = ()
    position: CommitPosition | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, bool] = field(default_factory=dict)

    @property
    def newest_write(self) -> Commit | None:
        """The newest one of ours, which has the position; None = all are archived, and
        compactions carry the position on."""
        return next((c for c in self.commits if c.is_write), None)

    @property
    def written_schema(self) -> str:
        """The Avro schema of the newest write of ours; "" = there is none."""
        return next((c.schema for c in self.commits if c.is_write and c.schema), "")

    def brought_by(self, commit: Commit) -> frozenset[str]:
        """Lake names of the columns that this one has, and our write before it lacks;
        none when that one is not known."""
        older = self.commits[self.commits.index(commit) + 1 :]
        before = next((c for c in older if c.is_write and c.schema), commit)
        return frozenset(commit.columns.keys() - before.columns.keys())

    @property
    def pending_compactions(self) -> tuple[str, ...]:
        return tuple(i.asked for i in self.timeline.pending_compactions)


def read_lake_table(
    path: str, *, commits: int = 3, timeline: Timeline | None = None
) -> LakeState:
    """The state of the table at `path`; `exists` False when there is none. timeline:
    if it was listed already."""
    base = place_at(path)
    properties = read_properties(base)
    if properties is None:
        return LakeState(exists=False)
    timeline = timeline or read_timeline(base)
    found = list(newest_commits(base, timeline, wanted=commits))
    return LakeState(
        exists=True,
        timeline=timeline,
        commits=tuple(found),
        position=_position(found),
        properties=properties,
        columns=next((c.columns for c in found if c.schema), {}),
    )


def read_timeline(base: Place) -> Timeline:
    return Timeline.of((base / ".hoodie" / "timeline").names())


def timeline_at(path: str) -> Timeline:
    """Of the table that is there."""
    return read_timeline(place_at(path))


def read_properties(base: Place) -> dict[str, str] | None:
    """`hoodie.properties`, or None when there is no table."""
    found = (base / ".hoodie" / "hoodie.properties").read()
    return None if found is None else pairs_in(found.decode())


def read_record(base: Place, instant: Instant) -> dict[str, Any]:
    """What the file of a completed instant says, as Avro names it."""
    found = (base / ".hoodie" / "timeline" / instant.file_name).read()
    if found is None:
        raise TransientError(
            "instant %(asked)s of %(name)s went away while it was read",
            asked=instant.asked,
            name=base.name,
            code="instant_gone",
            hint="it was archived; read the table again",
        )
    of = Sentence("instant %(asked)s of %(name)s", asked=instant.asked, name=base.name)
    return record_of(found, of=of)


def read_commit(base: Place, instant: Instant) -> Commit:
    record = read_record(base, instant)
    extra = record.get("extraMetadata") or {}
    stats = [
        stat
        for parts in (record.get("partitionToWriteStats") or {}).values()
        for stat in parts
    ]
    text = extra.get(EXTRA_KEY)
    return Commit(
        instant=instant,
        operation=record.get("operationType") or "",
        position=decode_position(text) if text else None,
        schema=extra.get("schema") or "",
        rows_written=sum(s.get("numWrites") or 0 for s in stats),
        rows_deleted=sum(s.get("numDeletes") or 0 for s in stats),
        bytes_written=sum(s.get("totalWriteBytes") or 0 for s in stats),
    )


def newest_commits(base: Place, timeline: Timeline, *, wanted: int) -> Iterator[Commit]:
    """Newest completion first, each read when it is taken; so many, and one of our
    writes among them if there is any."""
    writes = 0
    for count, instant in enumerate(reversed(timeline.completed_writes), start=1):
        commit = read_commit(base, instant)
        # a compaction carries an older writer's position, and a stranger's commit
        # none: see real writes of ours too
        writes += commit.is_write
        yield commit
        if count >= wanted and writes:
            return


def _position(newest_first: list[Commit]) -> CommitPosition | None:
    """Of the newest write. Compactions only carry positions on, and one that ran
    beside ingest may complete later than a newer write with an older position."""
    carried = [c.position for c in newest_first if c.position]
    written = (c.position for c in newest_first if c.is_write)
    return next(written, None) or latest(carried)


def record_of(content: bytes, *, of: str) -> dict[str, Any]:
    """`of`: what cannot be read when it is damaged, for the TerminalError."""
    try:
        record: Any = next(iter(fastavro.reader(io.BytesIO(content))))
        return dict(record)
    except Exception as error:
        # zeros, bytes that flipped, an end too early: the parser meets each of them
        # with another exception, KeyError and IndexError among them
        kind = type(error).__name__
        raise TerminalError(
            "%(of)s cannot be read: %(why)s (%(kind)s)",
            of=of,
            why=error if str(error) else Sentence("it ends too early"),
            kind=kind,
            code="timeline_damaged",
            hint="put the file back from a copy of the lake",
        ) from error
