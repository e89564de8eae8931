"""How the places of a lane are shared out between the jobs that wait for one.

The rules come first and are pure; what they ask of the rows follows. Places, weights
and share keys are those of `core.models.Job`: all jobs that read one source have one
share key; a snapshot or verification weighs as many rows as its table has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Final

from django.db import connection
from django.db.models import (
    DateTimeField,
    DurationField,
    ExpressionWrapper,
    F,
    Q,
    Value,
)
from django.db.models.expressions import Combinable
from django.db.models.functions import Least

from catalog.compiled import CompiledValues
from core.jobs import ACTIVE
from core.jobs.kinds import names_of
from core.models import Job
from ingest.jobs.kinds import DriverKind

# Where jobs with a driver of their own wait for it: they hold up nobody else.
OWN_LANE: Final = "own"

# How many specs of a lane a driver holds at once; the rest stays QUEUED and says so.
# They are shared out below: no source has all places of a lane of several, and of
# three a small table of any source finds one beside large ones.
LANE_LIMITS: Final = {
    "apply": 4,
    "snapshot": 4,
    "maintenance": 1,
    "verify": 3,
    OWN_LANE: 1,
}

# A job of so many rows counts as large: such jobs leave a place to others.
LARGE_ROWS: Final = 1_000_000
# A larger one lets smaller ones go first that were queued a little later than
# itself: a second for each so many of its rows, and never more than the bound.
ROWS_PER_SECOND: Final = 10_000.0
OVERTAKEN_SECONDS: Final = 600


@dataclass(frozen=True, slots=True)
class Place:
    """A place that is taken, or wanted."""

    share_key: str
    weight: int


@dataclass(frozen=True, slots=True)
class LaneUse:
    lane: str
    limit: int
    taken: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class FullFor:
    """The lane has no place for jobs of this share key ("" = of any) that weigh at
    least so much."""

    share_key: str
    least_weight: int
    reason: str

    def is_for(self, place: Place) -> bool:
        is_same = not self.share_key or self.share_key == place.share_key
        return is_same and place.weight >= self.least_weight


def full_for(use: LaneUse) -> Iterator[FullFor]:
    """Whom the lane has no place for now.

    One source has all places but one, so that a slow source leaves one to all others;
    large tables have all but one, and those of one source all but two, so that a small
    table never waits for a large one to end. A lane of one place knows no shares.
    """
    limit, lane = use.limit, use.lane
    if len(use.taken) >= limit:
        yield FullFor("", 0, f"waiting for a free place in the {lane} lane")
        return
    if limit < 2:
        return
    large = [place for place in use.taken if place.weight >= LARGE_ROWS]
    if len(large) >= limit - 1:
        yield FullFor(
            "",
            LARGE_ROWS,
            f"waiting for a free place in the {lane} lane: large tables have"
            f" {len(large)} of {limit}, and the rest is left to smaller ones",
        )
    for key, count in _counted(use.taken).items():
        if count >= limit - 1:
            yield FullFor(
                key,
                0,
                f"waiting for a free place in the {lane} lane: jobs of the same source"
                f" have {count} of {limit}, and the rest is left to other sources",
            )
    for key, count in _counted(tuple(large)).items():
        if count >= max(1, limit - 2):
            yield FullFor(
                key,
                LARGE_ROWS,
                f"waiting for a free place in the {lane} lane: large tables of the same"
                f" source have {count} of {limit}, and the rest is left to others",
            )


def _counted(taken: tuple[Place, ...]) -> Counter[str]:
    return Counter(place.share_key for place in taken if place.share_key)


# --------------------------------------------------------------------------- rows


def use_of(lane: str) -> LaneUse:
    return LaneUse(lane, LANE_LIMITS[lane], tuple(_taken().all(lane)))


@cache
def _taken() -> CompiledValues[Place]:
    """By lane."""
    # one of a kind that nobody here knows is ended by nobody: it must not keep a place
    known = names_of(DriverKind)
    rows = Job.objects.filter(lane="\x01", state__in=ACTIVE, kind__in=known)
    return CompiledValues(rows.values_list("share_key", "weight"), ["\x01"], Place)


def matching(rule: FullFor) -> Q:
    found = Q(weight__gte=rule.least_weight)
    return found & Q(share_key=rule.share_key) if rule.share_key else found


def turn() -> Combinable:
    """When it is a job's turn: the lighter ones go before heavier ones that were
    queued up to `OVERTAKEN_SECONDS` earlier."""
    delay = Least(F("weight") / ROWS_PER_SECOND, float(OVERTAKEN_SECONDS))
    seconds = ExpressionWrapper(
        delay * Value(timedelta(seconds=1)), output_field=DurationField()
    )
    return ExpressionWrapper(F("queued_at") + seconds, output_field=DateTimeField())


def has_room(job: Job) -> bool:
    """Counted again while nobody else can claim for this lane."""
    with connection.cursor() as cursor:
        name = f"lane:{job.lane}"
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [name])
    place = Place(job.share_key, job.weight)
    return not any(rule.is_for(place) for rule in full_for(use_of(job.lane)))
