"""What is kept beside a lake table: the staging area of a load (its chunk plan,
attempts and finished chunks), and where its last verification found differences.

A chunk counts when its manifest is there, and only then; a plan made for another
load, other columns or keys does not count. It must not know Spark or the source.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from core.errors import TerminalError, TransientError, said_by
from core.sentences import Sentence
from ingest.contract import members
from ingest.contract.table import ShardSpec
from ingest.lake.place import place_at
from ingest.lake.port import Place
from ingest.sources.chunks import Chunk, ChunkBy
from ingest.sources.fingerprint import ServerFingerprint, from_data, what_changed

# What plan and manifests mean; files without a version are of the first one.
VERSION = 1
# of a chunk's number in names
DIGITS = 6

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """How a load was cut, made once by its first attempt.

    fingerprint  of the load's epoch, columns and key: another plan is another load
    definition   of the source table then: chunks of another one do not go together
    bound        cursor position noted before the first chunk was read; "" = none
    source_fingerprint  when it began: chunks of another server do not go together
    snapshot     of a table that is followed by its log: which transactions all of its
                 chunks show, and `bound` is the place in the log behind them; "" = each
                 chunk shows its own moment, and that place is known once all are read
    """

    fingerprint: str
    by: ChunkBy
    chunks: tuple[Chunk, ...]
    definition: str = ""
    bound: str = ""
    source_fingerprint: Mapping[str, Any] = field(default_factory=dict)
    snapshot: str = ""

    @property
    def mark(self) -> str:
        """In the names of its chunks: what a superseded driver stages in another
        snapshot is not of this plan."""
        text = f"{self.bound} {self.snapshot}".encode()
        return f"-{hashlib.sha256(text).hexdigest()[:8]}" if self.snapshot else ""


def why_anew(
    plan: LoadPlan, definition: str, server: ServerFingerprint, now: datetime
) -> str:
    """Why what was staged by this plan counts no more; "" = it does."""
    # a standby that was promoted has the same files, and not all of the rows
    if changes := what_changed(from_data(plan.source_fingerprint), server, now):
        return Sentence("%(changes)s: the load started again", changes=changes[0])
    if plan.by != "key":
        # pages move between snapshots: what was read by page is read again
        return Sentence("the table has no index on a key: its load started again")
    if plan.definition != definition:
        return Sentence("the table was rewritten or altered: its load started again")
    return ""


@dataclass(frozen=True, slots=True)
class ChunkManifest:
    """A finished chunk: what was read, in which snapshot.

    null_keys  rows with a NULL in their key
    unfit      rows with a value that has no form in the lake
    """

    number: int
    snapshot: str
    rows: int
    null_keys: int = 0
    unfit: int = 0


class StagingArea:
    """One load's directory. Every change to it is one file, whole or absent."""

    def __init__(self, folder: str) -> None:
        self.folder = place_at(folder) / "load"
        self._mark: str | None = None

    def plan(self) -> LoadPlan | None:
        text = (self.folder / "plan.json").read()
        if text is None:
            return None
        plan = _decoded(LoadPlan, text)
        self._mark = plan.mark
        return plan

    def begin(self, plan: LoadPlan) -> None:
        """Starts anew with this plan: everything staged before is dropped."""
        self.clear()
        _save(self.folder / "plan.json", plan)
        self._mark = plan.mark

    def finished(self) -> dict[int, ChunkManifest]:
        found: dict[int, ChunkManifest] = {}
        folder = self.folder / "chunks"
        names = set(folder.names())
        for name in names:
            chunk, _, suffix = name.partition(".")
            is_ours = suffix == "json" and chunk[DIGITS:] == self.mark
            text = (folder / name).read() if is_ours else None
            if text is not None and chunk in names:
                manifest = _decoded(ChunkManifest, text)
                found[manifest.number] = manifest
        return found

    def is_complete(self, plan: LoadPlan) -> bool:
        return len(self.finished()) == len(plan.chunks)

    @property
    def mark(self) -> str:
        """See `LoadPlan`."""
        if self._mark is None:
            self.plan()
        return self._mark or ""

    def chunk_folder(self, number: int) -> Place:
        return self.folder / "chunks" / f"{number:0{DIGITS}d}{self.mark}"

    def finish(self, manifest: ChunkManifest) -> None:
        folder = self.chunk_folder(manifest.number)
        _save(self.folder / "chunks" / f"{folder.name}.json", manifest)

    def clear(self) -> None:
        # the plan goes first: without it the rest means nothing
        (self.folder / "plan.json").delete()
        self.folder.delete_all()


@dataclass(frozen=True, slots=True)
class Differing:
    """Where a verification found source and lake unlike.

    verification  its job
    key           source names of the key's columns, by which `chunks` are cut
    chunks        all of the table, the last one without an end; () = not by key
    numbers       those of chunks with a key that the lake has not, or not so
    extra         how many keys only the lake has
    source_fingerprint  as it was compared: of another source these say nothing
    position      of the cursor, up to which the lake had all; "" = none is followed
    shards        of the table, of which chunks are by their places
    """

    verification: str
    key: tuple[str, ...]
    chunks: tuple[Chunk, ...]
    numbers: tuple[int, ...]
    extra: int
    source_fingerprint: Mapping[str, Any] = field(default_factory=dict)
    position: str = ""
    shards: tuple[ShardSpec, ...] = ()


class Differences:
    """The keys are in Parquet (`k`), and count when the record beside them is there."""

    def __init__(self, folder: str) -> None:
        self._folder = place_at(folder) / "differences"

    def keys(self, verification: str) -> Place:
        return self._folder / f"keys-{verification}"

    def record(self) -> Differing | None:
        text = (self._folder / "differing.json").read()
        return None if text is None else _decoded(Differing, text)

    def keep(self, record: Differing) -> None:
        _save(self._folder / "differing.json", record)

    def clear(self) -> None:
        (self._folder / "differing.json").delete()
        self._folder.delete_all()


def require_space(folder: str, needed: int) -> None:
    """TransientError `staging_full` when `needed` bytes do not fit."""
    free = place_at(folder).free_bytes()
    if free is not None and free < needed:
        raise TransientError(
            "staging needs about %(needed)s bytes, %(free)s are free",
            folder=folder,
            needed=needed,
            free=free,
            code="staging_full",
            hint="free space on the file system of %(folder)s; then retry",
            facts={"needed": needed, "free": free},
        )


def _save(path: Place, value: LoadPlan | ChunkManifest | Differing) -> None:
    path.replace(members.encode(value, version=VERSION))


def _decoded(kind: type[T], text: bytes) -> T:
    try:
        return members.decode(kind, text, newest=VERSION)
    except members.TooNew as error:
        raise TerminalError(
            "what was staged for this load has %(error)s. Nothing was changed",
            error=said_by(error),
            code="staging_too_new",
            hint="run this table with the release that staged it, or cancel the load:"
            " that drops what was staged",
        ) from error
