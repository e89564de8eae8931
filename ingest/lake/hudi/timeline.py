"""Hudi's timeline as values, read from file names of table versions 8 and 9.

Names: `<asked>.<action>.requested`, `<asked>[.<action>].inflight`,
`<asked>_<done>.<action>`. Pure: who lists the directory is `ingest.lake`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Literal

State = Literal["REQUESTED", "INFLIGHT", "COMPLETED"]

_PENDING = re.compile(r"(\d{17})(?:\.(\w+))?\.(requested|inflight)")
_COMPLETED = re.compile(r"(\d{17})_(\d{17})\.(\w+)")
_RANK = {"REQUESTED": 0, "INFLIGHT": 1, "COMPLETED": 2}
WRITES = frozenset({"commit", "deltacommit", "replacecommit"})
SERVICES = frozenset({"compaction", "logcompaction", "clustering", "indexing"})
# a compaction whose request is gone from the active timeline is a plain commit
_MERGES = frozenset({"compaction", "commit"})


@dataclass(frozen=True, slots=True)
class Instant:
    """One action. `asked` identifies it; `action` is what was asked for, so a
    completed compaction is "compaction" although its file ends in ".commit"."""

    asked: str
    action: str
    state: State
    completed: str = ""

    @property
    def is_whole(self) -> bool:
        """It left base files: a compaction, a load, a replacement."""
        return self.action in SERVICES or self.action in {"commit", "replacecommit"}

    @property
    def file_name(self) -> str:
        """The file that holds a completed instant's facts."""
        action = {"compaction": "commit", "clustering": "replacecommit"}.get(
            self.action, self.action
        )
        return f"{self.asked}_{self.completed}.{action}"


@dataclass(frozen=True, slots=True)
class Timeline:
    """The active instants, oldest first by the time they were asked."""

    instants: tuple[Instant, ...] = ()
    # of each the instant that it keeps → when it was made
    savepoints: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, names: Iterable[str]) -> Timeline:
        found: dict[str, Instant] = {}
        kept: dict[str, str] = {}
        for name in names:
            instant = parse_instant(name)
            if instant is not None and instant.action == "savepoint":
                if instant.state == "COMPLETED":
                    kept[instant.asked] = instant.completed
            elif instant is not None:
                seen = found.get(instant.asked)
                found[instant.asked] = (
                    instant if seen is None else _merge(seen, instant)
                )
        ordered = tuple(found[asked] for asked in sorted(found))
        return cls(ordered, dict(sorted(kept.items())))

    @property
    def completed_writes(self) -> tuple[Instant, ...]:
        """Completed instants that carry rows, oldest completion first; a
        compaction counts, since it carries the position on."""
        done = (
            i
            for i in self.instants
            if i.state == "COMPLETED" and (i.action in WRITES or i.action in SERVICES)
        )
        return tuple(sorted(done, key=lambda i: i.completed))

    @property
    def pending_compactions(self) -> tuple[Instant, ...]:
        return tuple(
            i
            for i in self.instants
            if i.action == "compaction" and i.state != "COMPLETED"
        )

    @property
    def deltas_since_compaction(self) -> int:
        """Delta commits after the newest instant that left base files: a compaction, a
        load, a replacement."""
        count = 0
        for instant in reversed(self.completed_writes):
            if instant.is_whole:
                break
            count += 1
        return count

    @property
    def pending_writes(self) -> tuple[Instant, ...]:
        """Writes that never completed: uncommitted files, once their writer is dead."""
        return tuple(
            i for i in self.instants if i.action in WRITES and i.state != "COMPLETED"
        )

    def writes_after(self, asked: str) -> list[Instant]:
        """Completed writes behind the commit of that name, as Hudi goes back to it: by
        when they ended, but compactions by when they were asked for, since they hold
        no row of later."""
        kept = self.find(asked)
        done = kept.completed if kept else asked
        return [
            i
            for i in self.completed_writes
            if (i.asked > asked if i.action in _MERGES else i.completed > done)
        ]

    def find(self, asked: str) -> Instant | None:
        return next((i for i in self.instants if i.asked == asked), None)


def at_of(instant: str) -> datetime | None:
    """Hudi's 17 digits (UTC, milliseconds) as a time."""
    try:
        whole = datetime.strptime(instant[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
        return whole.replace(microsecond=int(instant[14:17] or 0) * 1000)
    except ValueError:
        return None


def instant_of(at: datetime) -> str:
    """A time as Hudi names instants: 17 digits in UTC."""
    at = at.astimezone(UTC)
    return f"{at:%Y%m%d%H%M%S}{at.microsecond // 1000:03d}"


@lru_cache(maxsize=50_000)
def parse_instant(name: str) -> Instant | None:
    """None for anything that is not an instant's file (checksums, history)."""
    if found := _PENDING.fullmatch(name):
        state: State = "REQUESTED" if found[3] == "requested" else "INFLIGHT"
        return Instant(found[1], found[2] or "commit", state)
    if found := _COMPLETED.fullmatch(name):
        return Instant(found[1], found[3], "COMPLETED", found[2])
    return None


def _merge(one: Instant, two: Instant) -> Instant:
    is_ahead = _RANK[one.state] >= _RANK[two.state]
    ahead, behind = (one, two) if is_ahead else (two, one)
    if ahead.action == behind.action:
        return ahead
    action = behind.action if behind.action in SERVICES else ahead.action
    return Instant(ahead.asked, action, ahead.state, ahead.completed)


# savepoints hold back cleaning and archiving, so they do not stay for ever
SAVEPOINT_KEPT = timedelta(days=7)


def ended_savepoints(timeline: Timeline, *, now: datetime) -> list[str]:
    """Their days count from when they were made, however old the commit is."""
    limit = instant_of(now - SAVEPOINT_KEPT)
    return [asked for asked, made in timeline.savepoints.items() if made < limit]
