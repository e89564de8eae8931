"""Moments that a lake table can go back to, read from its timeline. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from core.json_values import iso
from ingest.lake.hudi.timeline import SAVEPOINT_KEPT, Timeline, at_of


@dataclass(frozen=True, slots=True)
class Savepoint:
    """Times are ISO text, None where Hudi's digits are none.

    instant  the commit that it keeps, which ended `at`
    ends_at  the next cleaning afterwards takes it away
    later    commits that going back would take away
    """

    instant: str
    at: str | None
    made_at: str | None
    ends_at: str | None
    later: int


def savepoints_on(timeline: Timeline) -> tuple[Savepoint, ...]:
    """Newest first."""
    found = []
    for asked, completed in sorted(timeline.savepoints.items(), reverse=True):
        kept = timeline.find(asked)
        made = at_of(completed)
        found.append(
            Savepoint(
                asked,
                _text(at_of(kept.completed if kept else asked)),
                _text(made),
                _text(made + SAVEPOINT_KEPT if made else None),
                len(timeline.writes_after(asked)),
            )
        )
    return tuple(found)


def _text(at: datetime | None) -> str | None:
    return iso(at) if at else None
