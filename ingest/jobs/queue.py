"""The queue of the Spark drivers, as rows: put a job in, find the next one that may
run, begin its attempt, end it.

The row is the truth; the caller may die between any two of these functions. What a job
is for its kind knows (`spec_for`, `outcome`), and the driver host calls both.

Places of a lane are shared out by rules that are pure; places, weights and share keys
are those of `core.models.Job`: all jobs that read one source have one share key; a
snapshot or verification weighs as many rows as its table has.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction
from django.db.models import (
    BigIntegerField,
    BooleanField,
    Case,
    DateTimeField,
    DurationField,
    ExpressionWrapper,
    F,
    Q,
    QuerySet,
    Value,
    When,
)
from django.db.models.expressions import Combinable, RawSQL
from django.db.models.functions import Least, Now
from django.utils import timezone

from catalog.compiled import AnyRow, CompiledQuery, CompiledValues
from catalog.models import Table
from core.dispatch import send
from core.errors import InvalidRequest, SluiceError
from core.jobs import ACTIVE, LAUNCHING, QUEUED, UNKNOWN, moves
from core.jobs.moves import End, enqueue, move_job, names_of
from core.models import Job
from core.sentences import Sentence, stored, with_sentences
from ingest.contract.job import JobReport
from ingest.contract.members import as_data
from ingest.jobs import leases
from ingest.jobs.kinds import Attempt, DriverKind, driver_kind
from ingest.jobs.leases import is_isolated, scopes_of
from ingest.models import DriverIncarnation, Pipeline
from ingest.models.states import RETIRED

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

# A load that has run for so long gives its place back and goes on beside those that
# come behind it; so many may at once. How much is read of a source at a time stays the
# same: all its loads take turns there, chunk by chunk.
LONG_SECONDS: Final = 600
MOST_LONG: Final = {"snapshot": 4}

# A job of so many rows counts as large: such jobs leave a place to others.
LARGE_ROWS: Final = 1_000_000
# A larger one lets smaller ones go first that were queued a little later than
# itself: a second for each so many of its rows, and never more than the bound.
ROWS_PER_SECOND: Final = 10_000.0
OVERTAKEN_SECONDS: Final = 600


@dataclass(frozen=True, slots=True)
class Place:
    """A place that is taken, or wanted. is_long: for `LONG_SECONDS` and more."""

    share_key: str
    weight: int
    is_long: bool = False


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
        yield FullFor(
            "", 0, Sentence("waiting for a free place in the %(lane)s lane", lane=lane)
        )
        return
    if limit < 2:
        return
    large = [place for place in use.taken if place.weight >= LARGE_ROWS]
    if len(large) >= limit - 1:
        who, others = Sentence("large tables"), Sentence("smaller ones")
        yield FullFor("", LARGE_ROWS, _shared(use, len(large), who, others))
    for key, count in _counted(use.taken).items():
        if count >= limit - 1:
            who, others = Sentence("jobs of the same source"), Sentence("other sources")
            yield FullFor(key, 0, _shared(use, count, who, others))
    for key, count in _counted(tuple(large)).items():
        if count >= max(1, limit - 2):
            who = Sentence("large tables of the same source")
            why = _shared(use, count, who, Sentence("others"))
            yield FullFor(key, LARGE_ROWS, why)


def _shared(use: LaneUse, count: int, who: Sentence, others: Sentence) -> Sentence:
    return Sentence(
        "waiting for a free place in the %(lane)s lane: %(who)s have %(count)s of"
        " %(limit)s, and the rest is left to %(others)s",
        lane=use.lane,
        who=who,
        count=count,
        limit=use.limit,
        others=others,
    )


def _counted(taken: tuple[Place, ...]) -> Counter[str]:
    return Counter(place.share_key for place in taken if place.share_key)


# --------------------------------------------------------------------------- rows


def use_of(lane: str) -> LaneUse:
    taken = still_taken(_taken().all(lane), given_back=MOST_LONG.get(lane, 0))
    return LaneUse(lane, LANE_LIMITS[lane], taken)


def still_taken(places: Sequence[Place], *, given_back: int) -> tuple[Place, ...]:
    """Without those that were given back, so many at most."""
    long = [place for place in places if place.is_long]
    others = [place for place in places if not place.is_long]
    return (*others, *long[given_back:])


@cache
def _taken() -> CompiledValues[Place]:
    """By lane."""
    # one of a kind that nobody here knows is ended by nobody: it must not keep a place
    known = names_of(DriverKind)
    rows = Job.objects.filter(lane="\x01", state__in=ACTIVE, kind__in=known)
    long_ago = Now() - timedelta(seconds=LONG_SECONDS)
    is_long = Case(When(started_at__lt=long_ago, then=True), default=False)
    columns = rows.values_list("share_key", "weight", is_long)
    return CompiledValues(columns, ["\x01"], Place)


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


_BUSY: Final = "another job works on this table"
_LEASED: Final = "waiting for the table's lease"
# So many rows are told at a time why they wait.
PAGE: Final = 500
TICK = "ingest.tick"
# The driver host listens to this channel of PostgreSQL.
CHANNEL = "sluice_jobs"
SILENT_SECONDS = 10
_FRESH: dict[str, Any] = {
    "report": None,
    "finished_at": None,
    "progress_at": None,
    "error_code": "",
    "error_message": "",
    "error_hint": "",
}

# --------------------------------------------------------------------------- put


def new_job(
    pipeline: Pipeline,
    kind: str,
    *,
    actor: str,
    payload: Mapping[str, Any] | None = None,
) -> Job:
    """An unsaved job of this pipeline, for `put`. `payload` is the kind's own,
    beside what all say."""
    table = pipeline.lake_table
    if table is None:
        raise InvalidRequest(
            "%(source_table)s is not approved yet",
            source_table=pipeline.source_table,
            code="not_now",
        )
    said = {"pipeline": pipeline.pk, "table": table.pk, **(payload or {})}
    job = job_on(table, kind, said, actor=actor)
    job.share_key = f"source:{pipeline.source_table.database.datasource_id}"
    if driver_kind(kind).weighs_rows:
        job.weight = pipeline.estimated_rows
    return job


def job_on(table: Table, kind: str, payload: dict[str, Any], *, actor: str) -> Job:
    """The same for a table, whoever syncs it."""
    described = driver_kind(kind)
    return Job(
        kind=kind,
        subject=str(table),
        subject_id=str(table.pk),
        exclusive_key=leases.lease_name(table.pk, described.scopes[0]),
        lane=described.lane,
        max_attempts=described.max_attempts,
        payload=payload,
        requested_by=actor,
        state=QUEUED,
        queued_at=timezone.now(),
        reason="waiting for a driver",
    )


def put(jobs: list[Job], *, is_awaited: bool = True) -> list[Job]:
    """Queue many at once; where an equal one waits already, that one is returned.

    is_awaited: wake the driver host, which else finds them within half a second.
    """
    with transaction.atomic():
        found = enqueue(jobs)
        if is_awaited:
            wake_host()
    return found


def wake_host() -> None:
    """Have the driver host look at its jobs as soon as the surrounding transaction has
    committed. One that is not there looks when it starts."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, '')", [CHANNEL])


def notify_workers() -> None:
    """Have a worker look at what waits for jobs to end, once the surrounding
    transaction has committed; never raises."""
    transaction.on_commit(functools.partial(send, TICK), robust=True)


# ------------------------------------------------------------------------- claim


def _queued() -> QuerySet[Job]:
    return Job.objects.filter(state=QUEUED, lane__in=list(LANE_LIMITS)).filter(
        Q(not_before=None) | Q(not_before__lte=Now())
    )


is_any_queued = AnyRow(_queued)


def live_incarnation() -> DriverIncarnation | None:
    """The driver that takes work now: ready, not ended, heard of recently."""
    return _live().first()


@cache
def _live() -> CompiledQuery[DriverIncarnation]:
    heard = Now() - timedelta(seconds=SILENT_SECONDS)
    incarnations = DriverIncarnation.objects.filter(
        ended_at=None, ready_at__isnull=False, heartbeat_at__gt=heard
    )
    return CompiledQuery(incarnations.order_by("-started_at")[:1], ())


def explain_no_driver() -> None:
    """While no driver takes work, write why jobs wait: no host does it then."""
    if not is_any_queued() or live_incarnation() is not None:
        return
    newest = (
        DriverIncarnation.objects.filter(ended_at=None).order_by("-started_at").first()
    )
    away = newest.facts.get("away") if newest else None
    _explain(
        _queued(),
        Sentence(
            "waiting for a driver: %(away)s", away=away or Sentence("none is ready")
        ),
    )


def _waiting() -> QuerySet[Any]:
    """What is queued, with `held_up`: why its table is not free, "" = it is."""
    active = Job.objects.filter(state__in=ACTIVE, lane__in=list(LANE_LIMITS))
    why = Case(
        When(exclusive_key__in=active.values("exclusive_key"), then=Value(_BUSY)),
        When(leases.is_held(), then=Value(_LEASED)),
        default=Value(""),
    )
    return _queued().annotate(held_up=why)


@cache
def _held_up() -> CompiledValues[tuple[UUID, str]]:
    """Those whose rows do not say it yet."""
    rows = _waiting().exclude(held_up="").exclude(held_up=F("reason"))
    return CompiledValues(rows.values_list("pk", "held_up")[:PAGE], (), _as_it_is)


def free_lanes() -> set[str]:
    """Lanes where a job waits whose table is free. Those of other tables get the reason
    why they wait: they must not stand before the rest, for hours at times."""
    _tell(_held_up().all())
    return set(_free_lanes().all())


@cache
def _free_lanes() -> CompiledValues[str]:
    lanes = _waiting().filter(held_up="").values_list("lane").distinct()
    return CompiledValues(lanes, (), str)


def tables_asked_for(table_ids: Collection[int], *, of: Collection[str]) -> set[int]:
    """Those of the tables that a job could begin to write to now if these owners of
    leases gave them back."""
    if not table_ids or not is_any_queued():
        return set()
    active = Job.objects.filter(state__in=ACTIVE, lane__in=list(LANE_LIMITS))
    here = _queued().filter(subject_id__in=[str(pk) for pk in table_ids])
    left = here.exclude(exclusive_key__in=active.values("exclusive_key"))
    left = left.exclude(leases.is_held(but=of))
    asked: set[int] = set()
    for lane in set(left.values_list("lane", flat=True)):
        out = _is_shut_out(*_arrays(full_for(use_of(lane))))
        first = left.filter(lane=lane).exclude(out).order_by(turn(), "queued_at")
        asked |= {
            int(job.subject_id)
            for job in first[: LANE_LIMITS[lane]]
            if leases.WRITE in _scopes_of(job)
        }
    return asked


def _scopes_of(job: Job) -> Sequence[str]:
    kind = driver_kind(job.kind)
    rows = Pipeline.objects.filter(lake_table=job.payload["table"])
    pipeline = rows.exclude(state=RETIRED).select_related("lake_table").first()
    is_alone = pipeline is not None and is_isolated(job, pipeline)
    return scopes_of(kind, pipeline) if pipeline and is_alone else kind.scopes


def next_in(lane: str, *, without: Collection[UUID]) -> UUID | None:
    """Whose turn it is in a lane, of those that it has a place for; the others get the
    reason why they wait."""
    rules = list(full_for(use_of(lane)))
    full = _arrays(rules)
    if rules:
        reasons = [stored(rule.reason) for rule in rules]
        untold = _shut_out().all(lane, *full, reasons)
        _tell((pk, rules[at - 1].reason) for pk, at in untold)
    return _first().first(lane, *full, list(without))


def _arrays(rules: Iterable[FullFor]) -> tuple[list[str], list[int]]:
    rules = list(rules)
    return [one.share_key for one in rules], [one.least_weight for one in rules]


# The rules that a job is shut out by, as `FullFor.is_for` says it.
_RULES = """FROM unnest(%s::text[], %s::bigint[], %s::text[])
  WITH ORDINALITY AS one(share_key, least_weight, reason, at)
  WHERE one.share_key IN ('', core_job.share_key)
    AND one.least_weight <= core_job.weight"""
_UNTOLD = f"""(SELECT why.at
  FROM (SELECT one.at, one.reason {_RULES} ORDER BY one.at LIMIT 1) why
  WHERE why.reason <> core_job.reason)"""
_LANE, _KEYS, _WEIGHTS, _REASONS = "\x01", ["\x01"], [-1], ["\x02"]
_WITHOUT = [UUID(int=1)]


@cache
def _shut_out() -> CompiledValues[tuple[UUID, int]]:
    """By lane and rules: which of them shuts a job out whose row does not say so yet,
    counted from 1."""
    by = RawSQL(_UNTOLD, [_KEYS, _WEIGHTS, _REASONS], BigIntegerField())
    rows = _waiting().filter(lane=_LANE, held_up="").annotate(by=by)
    rows = rows.exclude(by=None)
    given = [_LANE, _KEYS, _WEIGHTS, _REASONS]
    return CompiledValues(rows.values_list("pk", "by")[:PAGE], given, _as_it_is)


@cache
def _first() -> CompiledValues[UUID]:
    """By lane, rules, and what was tried already."""
    is_out = _is_shut_out(_KEYS, _WEIGHTS)
    is_tried = RawSQL("core_job.id = ANY(%s::uuid[])", [_WITHOUT], BooleanField())
    rows = _waiting().filter(lane=_LANE, held_up="").exclude(is_out).exclude(is_tried)
    first = rows.order_by(turn(), "queued_at").values_list("pk")[:1]
    return CompiledValues(first, [_LANE, _KEYS, _WEIGHTS, _WITHOUT], lambda pk: pk)


def _is_shut_out(keys: list[str], weights: list[int]) -> RawSQL:
    by = f"EXISTS (SELECT {_RULES})"
    return RawSQL(by, [keys, weights, []], BooleanField())


def _as_it_is(*row: Any) -> tuple[Any, ...]:
    return row


def _explain(jobs: QuerySet[Job], reason: str) -> None:
    """Why these wait. Only rows whose reason differs are written, a page at a time."""
    pks = jobs.exclude(reason=reason).values_list("pk", flat=True)[:PAGE]
    _tell((pk, reason) for pk in pks)


def _tell(reasons: Iterable[tuple[UUID, str]]) -> None:
    """By job: why it waits."""
    pks: defaultdict[str, list[UUID]] = defaultdict(list)
    for pk, reason in reasons:
        pks[reason].append(pk)
    for reason, those in pks.items():
        Job.objects.filter(pk__in=those, state=QUEUED).update(reason=reason)


def claim(job: Job, attempt: Attempt, incarnation: DriverIncarnation) -> None:
    """Begin an attempt in this driver: QUEUED → LAUNCHING."""
    hold, now = attempt.hold, timezone.now()
    moves.claim(
        job,
        spec=as_data(attempt.spec),
        handle={
            "boot": str(incarnation.pk),
            "isolated": hold.is_alone,
            "scopes": list(hold.scopes),
        },
        attempts=job.attempts + 1,
        started_at=now,
        moved_at=job.moved_at or now,
        **_FRESH,
    )


# ---------------------------------------------------------------------- hand over


@dataclass(frozen=True, slots=True)
class HeldJob:
    """An active job of a driver, as its host needs it. spec: only while LAUNCHING."""

    id: str
    state: str
    attempts: int
    cancel_requested: str
    is_isolated: bool
    spec: Mapping[str, Any] | None


def held_by(incarnation_id: UUID) -> list[HeldJob]:
    """What this driver was given and has not ended, in the order of the queue."""
    return [
        job
        for incarnation, job in _active().all()
        if incarnation == str(incarnation_id)
    ]


@cache
def _active() -> CompiledValues[tuple[str, HeldJob]]:
    """Of all drivers: asked twice a second, and there are few."""
    spec = Case(When(state=LAUNCHING, then="spec"), default=None)
    rows = Job.objects.filter(state__in=ACTIVE).order_by("queued_at")
    names = ("pk", "state", "attempts", "cancel_requested", "handle")

    def held(
        pk: UUID, state: str, attempts: int, mode: str, handle: Any, spec: Any
    ) -> tuple[str, HeldJob]:
        is_isolated = bool(handle.get("isolated"))
        job = HeldJob(str(pk), state, attempts, mode, is_isolated, spec)
        return handle.get("boot", ""), job

    return CompiledValues(rows.values_list(*names, spec), (), held)


def note_accepted(job_id: UUID, attempt: int) -> None:
    """The driver has the spec. A repeated or late message changes nothing."""
    with transaction.atomic():
        job = Job.objects.select_for_update().filter(pk=job_id).first()
        if job and job.attempts == attempt and job.state in {LAUNCHING, UNKNOWN}:
            move_job(job, "accepted", progress_at=timezone.now())


# ------------------------------------------------------------------------- finish


def lock_attempt(report: JobReport) -> Job | None:
    """Return the job that the report is about, locked. Reports may come twice or late:
    None when it is not about the present attempt of an unfinished job."""
    job = Job.objects.select_for_update().filter(pk=report.job_id).first()
    if job is None or job.attempts != report.attempt or job.state not in ACTIVE:
        return None
    return job


def finish(job: Job, report: JobReport, error: SluiceError | None) -> End:
    """End the attempt as its report says. error: by what it failed; None = it did not,
    or it was to be cancelled. The row stays locked, and the caller concludes the end.
    """
    job.report = as_data(report)
    Job.objects.filter(pk=job.pk).update(report=job.report)
    facts = with_sentences(job.report)["facts"]
    if report.outcome == "succeeded":
        return moves.succeed(job, facts)
    if error is None:
        return moves.end_cancelled(job, facts, reason=job.reason)
    return moves.fail_or_retry(job, error, facts, tried=job.attempts)
