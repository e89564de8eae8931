"""When something runs, as replies show it: schedule, its words, next runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.utils import timezone

from ingest.models import Pipeline
from ingest.models.states import FAILED, NEEDS_RESYNC, PAUSED, REMOVING, RETIRED
from ingest.pipelines.policies.policy import Effective
from ingest.pipelines.policies.schedule import (
    FOLLOWS,
    ONCE,
    Schedule,
    in_words,
    next_runs,
    schedule_to_json,
)
from ingest.planning.facts import LOG

NEXT_RUNS = 3
STOPPED = frozenset({PAUSED, FAILED, NEEDS_RESYNC, REMOVING, RETIRED})


@dataclass(frozen=True, slots=True)
class Timetable:
    """origin: what level the schedule is from, None = it has none."""

    schedule: Any = None
    in_words: str = ONCE
    next_runs: tuple[datetime, ...] = ()
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A row and when it runs."""

    row: Any
    timetable: Timetable


def timetable_of(
    schedule: Schedule | None, *, due: datetime | None = None, origin: str | None = None
) -> Timetable:
    """`due` is the first of its next runs when it is known."""
    runs = [due] if due else []
    after = due or timezone.now()
    runs += next_runs(schedule, after, NEXT_RUNS - len(runs))
    words = in_words(schedule)
    return Timetable(schedule_to_json(schedule), words, tuple(runs), origin)


def timetable_of_capture(
    capture: str, policy: Effective, *, due: datetime | None = None
) -> Timetable:
    if capture == "snapshot":
        return Timetable()
    if capture == LOG:
        return Timetable(in_words=FOLLOWS)
    return timetable_of(policy.schedule, due=due, origin=policy.origins["schedule"])


def timetable_of_pipeline(pipeline: Pipeline, policy: Effective) -> Timetable:
    """None of it runs while the table is stopped; the schedule stays."""
    found = timetable_of_capture(pipeline.capture, policy, due=pipeline.due_at)
    return replace(found, next_runs=()) if pipeline.state in STOPPED else found
