"""What was written of a table by day, what of it was upkeep, how it grows. Pure.

Added up from the commits' own figures while they are on the timeline, so nothing of it
can be read again later: the history is the record.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any

from ingest.contract.members import value_of
from ingest.contract.written import Totals, Wrote

DAYS_KEPT = 90
# growth is told from this many days on, and about the newest of them
LEAST_DAYS, GROWTH_DAYS = 2, 30


@dataclass(frozen=True, slots=True)
class Day:
    """One day in UTC.

    changed_rows, changed_bytes  by syncs: what the source changed, as it was written
    upkeep_bytes                 by compactions and replacements: the same rows again
    loaded_bytes                 by loads
    table_bytes                  what readers read at the last look of the day
    """

    day: str
    changed_rows: int = 0
    changed_bytes: int = 0
    upkeep_bytes: int = 0
    loaded_bytes: int = 0
    table_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Written:
    """days: oldest first; counted: what was written up to the last look; credit: bytes
    that changes earned for compactions and none spent, None = not counted yet."""

    counted: Totals = field(default_factory=Totals)
    days: tuple[Day, ...] = ()
    credit: int | None = None

    @property
    def amplification(self) -> float | None:
        """Bytes written per byte of changed rows; None before the first change."""
        changed = sum(d.changed_bytes for d in self.days)
        upkeep = sum(d.upkeep_bytes for d in self.days)
        return round((changed + upkeep) / changed, 2) if changed else None

    def amplification_of(self, day: str) -> float | None:
        """The same of one day, `2026-01-31`."""
        today = tuple(d for d in self.days if d.day == day)
        return replace(self, days=today).amplification

    @property
    def bytes_per_row(self) -> float | None:
        """Bytes written per changed row, upkeep included."""
        rows = sum(d.changed_rows for d in self.days)
        wrote = sum(d.changed_bytes + d.upkeep_bytes for d in self.days)
        return round(wrote / rows, 1) if rows else None

    @property
    def growth_per_day(self) -> int | None:
        """Bytes by which what readers read grows a day; None before it can be told."""
        days = self.days[-GROWTH_DAYS:]
        if len(days) < LEAST_DAYS:
            return None
        first = date.fromisoformat(days[0].day)
        passed = [(date.fromisoformat(d.day) - first).days for d in days]
        slope, _ = statistics.linear_regression(passed, [d.table_bytes for d in days])
        return round(slope)

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def written_from(data: Mapping[str, Any]) -> Written:
    """The reverse of `to_json`; what other releases kept beside it is left out."""
    return value_of(Written, data)


def add(
    before: Written, wrote: Iterable[Wrote], *, table_bytes: int, now: datetime
) -> Written:
    """`wrote` since `before.counted`."""
    days = {day.day: day for day in before.days}
    for one in wrote:
        key = f"{one.completed[:4]}-{one.completed[4:6]}-{one.completed[6:8]}"
        known = days.get(key) or Day(key, table_bytes=table_bytes)
        days[key] = _plus(known, one)
    today = f"{now:%Y-%m-%d}"
    days[today] = replace(days.get(today) or Day(today), table_bytes=table_bytes)
    kept = sorted(days.values(), key=lambda d: d.day)[-DAYS_KEPT:]
    return replace(before, days=tuple(kept))


def _plus(day: Day, one: Wrote) -> Day:
    if one.action == "deltacommit":
        return replace(
            day,
            changed_rows=day.changed_rows + one.rows,
            changed_bytes=day.changed_bytes + one.bytes,
        )
    if one.action == "commit":
        return replace(day, loaded_bytes=day.loaded_bytes + one.bytes)
    return replace(day, upkeep_bytes=day.upkeep_bytes + one.bytes)
