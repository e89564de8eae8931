"""Facts of a lake table's health, from its timeline and its files. Pure.

They are a small value that is stored as JSON and shown; what is good or bad about
them is decided in `ingest.maintenance.score`.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from core.json_values import iso
from ingest.contract.members import value_of
from ingest.lake.hudi.layout import FileGroup, Layout
from ingest.lake.hudi.timeline import WRITES, Instant, Timeline, at_of, instant_of
from ingest.maintenance.merging import MergeCost
from ingest.maintenance.savepoints import Savepoint, savepoints_on

COMMITS_KEPT = 60
CONFLICTS_KEPT = 20
BUCKETS_KEPT = 64
MB = 1_000_000
# upper ends of the histogram's bins; the last one is open
SIZE_BINS = (MB, 8 * MB, 32 * MB, 128 * MB, 512 * MB)
_DAY = 86_400.0
# hosts may differ by some of this, and the rest has passed before anybody looks
_SOON = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """What a pending compaction would merge, as far as its request tells."""

    groups: int = 0
    log_bytes: int = 0
    is_readable: bool = True


@dataclass(frozen=True, slots=True)
class Pending:
    """An instant that is not completed.

    is_held  a job holds the lease under which this kind of instant is written
    behind   completed instants that cannot be archived before this one has ended
    back_to  the savepoint that a restore goes back to, of it and of its rollbacks
    """

    instant: str
    action: str
    state: str
    age_seconds: float
    is_held: bool
    behind: int
    plan: PlanFacts | None = None
    back_to: str = ""

    @property
    def is_readable(self) -> bool:
        """False: the request of a plan is gone or damaged; Hudi can do nothing."""
        return self.plan is None or self.plan.is_readable


@dataclass(frozen=True, slots=True)
class Done:
    """A completed write or compaction and how long it took."""

    instant: str
    action: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Conflict:
    """A bucket with several file groups."""

    partition: str
    bucket: int


@dataclass(frozen=True, slots=True)
class TakenLock:
    """A fence that lets none of ours in. scope: "write" or "service"; found: what
    stands there; ours: the last token that a lease gave out."""

    scope: str
    found: str
    ours: int


@dataclass(frozen=True, slots=True)
class LakeFacts:
    """One look at a table.

    held_instants     of `instants`, those that no archiving takes yet: from the first
                      savepoint on, or the first replacement that hides old files from
                      statements that may still read them
    delta_commits     since the newest compaction (or load)
    written_at        when the newest write was completed, whatever it wrote
    oldest_log_at     when the oldest log file was written that readers must merge
    sizes             base files per bin of SIZE_BINS
    bucket_bytes      per bucket from 0 on, over all partitions; [] when there are too
                      many
    bucket_log_bytes  of these the bytes of log files, in the same order
    rollbacks         the newest ones of the active timeline, by instant
    strays            base files that no commit lists beside the one it lists
    skew              the largest bucket as a multiple of a usual one: the middle one,
                      or half an even share where the middle one has less
    buckets           pinned for the table, per partition; 0 = not known
    foreign_index     partitions of a metadata table that another writer made
    highest_bucket    that has a file group; -1 = none
    merge             what waiting log files cost readers; None before it was weighed
    altered           what of `hoodie.properties` is not as pinned, in words
    savepoints        newest first
    is_gone           it was loaded, and there is no table in its folder
    future            instants of a clock that was ahead, by when they were asked for
    """

    at: str
    partitions: int = 0
    groups: int = 0
    base_files: int = 0
    base_bytes: int = 0
    log_files: int = 0
    log_bytes: int = 0
    most_logs: int = 0
    old_files: int = 0
    old_bytes: int = 0
    unfinished_files: int = 0
    unfinished_bytes: int = 0
    instants: int = 0
    held_instants: int = 0
    delta_commits: int = 0
    compacted_at: str = ""
    written_at: str = ""
    oldest_log_at: str = ""
    rollbacks_of_a_day: int = 0
    skew: float = 1.0
    buckets: int = 0
    foreign_index: tuple[str, ...] = ()
    highest_bucket: int = -1
    altered: tuple[str, ...] = ()
    taken: tuple[TakenLock, ...] = ()
    conflicts_total: int = 0
    strays: int = 0
    is_gone: bool = False
    sizes: tuple[int, ...] = ()
    bucket_bytes: tuple[int, ...] = ()
    bucket_log_bytes: tuple[int, ...] = ()
    rollbacks: tuple[str, ...] = ()
    savepoints: tuple[Savepoint, ...] = ()
    future: tuple[str, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    pending: tuple[Pending, ...] = ()
    commits: tuple[Done, ...] = ()
    merge: MergeCost | None = None

    @property
    def log_ratio(self) -> float:
        """Log bytes per byte of base files."""
        return self.log_bytes / self.base_bytes if self.base_bytes else 0.0

    @property
    def is_slow(self) -> bool:
        """Readers notice what waits; before it was weighed, they may."""
        return self.merge is None or self.merge.is_slow

    @property
    def pending_compactions(self) -> tuple[Pending, ...]:
        return tuple(p for p in self.pending if p.action == "compaction")

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def facts_from(data: Mapping[str, Any]) -> LakeFacts:
    """The reverse of `to_json`; members of other releases are left out."""
    return value_of(LakeFacts, data)


def read_facts(
    timeline: Timeline,
    layout: Layout,
    *,
    now: datetime,
    held: frozenset[str] = frozenset(),
    plans: Mapping[str, PlanFacts] | None = None,
) -> LakeFacts:
    """`held`: which of "write" and "service" a job holds now; `plans`: of pending
    compactions, by instant."""
    groups = layout.groups
    found = [Conflict(p, b) for p, b in layout.conflicts]
    conflicts = sorted(found, key=lambda c: (c.partition, c.bucket))
    oldest_log = min((g.oldest_log for g in groups if g.oldest_log), default="")
    done = timeline.completed_writes
    return LakeFacts(
        at=iso(now),
        partitions=len({g.partition for g in groups}),
        groups=len(groups),
        base_files=sum(1 for g in groups if g.base),
        base_bytes=sum(g.base_bytes for g in groups),
        log_files=sum(g.log_files for g in groups),
        log_bytes=sum(g.log_bytes for g in groups),
        most_logs=max((g.log_files for g in groups), default=0),
        old_files=layout.old_files,
        old_bytes=layout.old_bytes,
        unfinished_files=layout.unfinished_files,
        unfinished_bytes=layout.unfinished_bytes,
        instants=len(timeline.instants),
        held_instants=_held_instants(timeline),
        delta_commits=timeline.deltas_since_compaction,
        compacted_at=_when(next((i.completed for i in done[::-1] if i.is_whole), "")),
        written_at=_when(done[-1].completed) if done else "",
        oldest_log_at=_when(oldest_log),
        rollbacks_of_a_day=sum(age_of(r, now) <= _DAY for r in _rollbacks(timeline)),
        highest_bucket=max(
            (g.bucket for g in groups if g.bucket is not None), default=-1
        ),
        conflicts_total=len(conflicts),
        strays=sum(len(t.names) - 1 for t in layout.twins),
        sizes=_sizes(groups),
        rollbacks=tuple(_rollbacks(timeline)[-COMMITS_KEPT:]),
        savepoints=savepoints_on(timeline),
        future=tuple(_future(timeline, now)),
        conflicts=tuple(conflicts[:CONFLICTS_KEPT]),
        pending=tuple(_pending(timeline, now, held, plans or {})),
        commits=tuple(_done(i) for i in done[-COMMITS_KEPT:]),
    )


def _future(timeline: Timeline, now: datetime) -> Iterable[str]:
    """Commits that shut the table: Hudi would merge one of now below them."""
    soon = instant_of(now + _SOON)
    done = timeline.completed_writes
    return sorted(i.asked for i in done if max(i.asked, i.completed) > soon)


def age_of(instant: str, now: datetime) -> float:
    at = at_of(instant)
    return max(0.0, round((now - at).total_seconds(), 1)) if at else 0.0


def _pending(
    timeline: Timeline,
    now: datetime,
    held: frozenset[str],
    plans: Mapping[str, PlanFacts],
) -> Iterable[Pending]:
    for instant in timeline.instants:
        if instant.state == "COMPLETED":
            continue
        behind = sum(
            1
            for other in timeline.instants
            if other.state == "COMPLETED" and other.asked > instant.asked
        )
        yield Pending(
            instant.asked,
            instant.action,
            instant.state,
            age_of(instant.asked, now),
            _is_held(instant.action, held),
            behind,
            plans.get(instant.asked) if instant.action == "compaction" else None,
        )


def _is_held(action: str, held: frozenset[str]) -> bool:
    if action == "rollback":
        # syncs and compactions both undo what they find
        return bool(held)
    return ("write" if action in WRITES else "service") in held


def restoring(facts: LakeFacts, back_to: str) -> LakeFacts:
    """With the savepoint of the restore that was begun; "" = there is none."""
    pending = (
        dataclasses.replace(one, back_to=back_to)
        if one.action in {"restore", "rollback"}
        else one
        for one in facts.pending
    )
    return dataclasses.replace(facts, pending=tuple(pending))


def in_buckets(facts: LakeFacts, layout: Layout, buckets: int) -> LakeFacts:
    """With how the bytes lie in the buckets, of which the table has so many; 0 = not
    known."""
    whole, in_logs = Counter[int](), Counter[int]()
    for group in layout.groups:
        if group.bucket is not None:
            whole[group.bucket] += group.base_bytes + group.log_bytes
            in_logs[group.bucket] += group.log_bytes
    count = max(buckets, max(whole, default=-1) + 1)
    shown = range(count if count <= BUCKETS_KEPT else 0)
    return dataclasses.replace(
        facts,
        buckets=buckets,
        skew=_skew(list(whole.values()), buckets),
        bucket_bytes=tuple(whole[number] for number in shown),
        bucket_log_bytes=tuple(in_logs[number] for number in shown),
    )


def _held_instants(timeline: Timeline) -> int:
    holders = [
        *timeline.savepoints,
        *(i.asked for i in timeline.completed_writes if i.action == "replacecommit"),
    ]
    first = min(holders, default=None)
    return 0 if first is None else sum(i.asked >= first for i in timeline.instants)


def _rollbacks(timeline: Timeline) -> list[str]:
    return [i.asked for i in timeline.instants if i.action == "rollback"]


def _skew(found: list[int], buckets: int) -> float:
    """Of the bytes of each bucket that has a file."""
    # a bucket that no key fell into has no file, and works as little as an empty one
    every = [*found, *[0] * (buckets - len(found))]
    if not any(every):
        return 1.0
    usual = max(statistics.median(every), statistics.mean(every) / 2)
    return round(max(every) / usual, 2)


def _sizes(groups: Iterable[FileGroup]) -> tuple[int, ...]:
    counts = [0] * (len(SIZE_BINS) + 1)
    for group in groups:
        if group.base:
            bins = (n for n, end in enumerate(SIZE_BINS) if group.base_bytes < end)
            counts[next(bins, len(SIZE_BINS))] += 1
    return tuple(counts)


def _done(instant: Instant) -> Done:
    asked, completed = at_of(instant.asked), at_of(instant.completed)
    took = (completed - asked).total_seconds() if asked and completed else 0.0
    return Done(instant.asked, instant.action, max(0.0, round(took, 3)))


def _when(instant: str) -> str:
    at = at_of(instant) if instant else None
    return iso(at) if at else ""
