"""Judging jobs whose driver is gone: the lake's own timeline says what became of them.

Fence first, look second: once the fence is raised nothing of the old writer can
complete any more, so what the timeline shows then is final. A lake that cannot be
asked makes a job UNKNOWN, never FAILED; one whose timeline is damaged ends it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from catalog.compiled import AnyRow
from core.database_errors import is_away
from core.errors import SluiceError, TerminalError, TransientError
from core.jobs import ACTIVE, CANCELLING, LAUNCHING, RUNNING, moves
from core.jobs.moves import UNKNOWN_KIND, End, conclude, move_job, names_of
from core.models import Job
from core.sentences import Sentence
from ingest.jobs import leases
from ingest.jobs.kinds import DriverKind, driver_kind
from ingest.jobs.leases import Deaths, use_dedicated_driver, wait_after
from ingest.jobs.queue import notify_workers, wake_host
from ingest.lake.commits import LakeState, read_lake_table
from ingest.lake.fence import Scope
from ingest.models import DriverIncarnation

log = logging.getLogger(__name__)

MAX_DEATHS = 4
LOOK_BACK = 20


DAMAGED = "timeline_damaged"
# A database that has just started has not heard of anybody yet.
GRACE_SECONDS = 10


def _active() -> QuerySet[Job]:
    # whatever has a lane is a driver's, also of a kind that another release stored:
    # it keeps its table busy
    in_drivers = Q(kind__in=names_of(DriverKind)) | ~Q(lane="")
    return Job.objects.filter(in_drivers, state__in=ACTIVE)


_is_any_active = AnyRow(_active)


def reconcile_jobs() -> int:
    """Judge every job whose driver ended or is silent; how many were judged."""
    if not _is_any_active() or _is_database_young():
        return 0
    incarnations = {
        pk: handle.get("boot", "")
        for pk, handle in _active().values_list("pk", "handle")
    }
    gone = _gone({incarnation for incarnation in incarnations.values() if incarnation})
    return sum(
        _judge_alone(pk, gone.get(incarnation, GONE), incarnation)
        for pk, incarnation in incarnations.items()
        if incarnation in gone or not incarnation
    )


def _judge_alone(job_id: UUID, why: str, incarnation: str) -> bool:
    """A job that cannot be judged for a defect of ours must not hold up the others."""
    try:
        return judge_lost(job_id, why, incarnation=incarnation)
    except Exception as error:
        if is_away(error):
            raise
        log.exception("cannot judge job %s", job_id)
        return False


GONE = Sentence("its driver is gone")
STOPPED = Sentence("its driver was stopped")


def note_incarnation_ended(incarnation_id: UUID, *, was_told: bool) -> None:
    """The process was seen dead: its jobs can be judged at once. One that was told
    to stop is not held against them."""
    row = DriverIncarnation.objects.filter(pk=incarnation_id, ended_at=None).first()
    if row is not None:
        facts = row.facts | {"was_told": was_told}
        DriverIncarnation.objects.filter(pk=incarnation_id).update(
            ended_at=Now(), facts=facts
        )


def begin_incarnation(
    incarnation_id: UUID, place: str, *, alone: Mapping[str, int] = MappingProxyType({})
) -> None:
    """A host has come to its place, alone there: earlier incarnations have ended.

    alone   attempts of jobs in processes of their own, which outlived the shared driver
            and go on under this one. TransientError `another_host` while a host of
            another place is alive: tables whose writers wait for each other in memory
            would have two writers.
    """
    with transaction.atomic():
        _require_only(place)
        incarnations = DriverIncarnation.objects.filter(
            ended_at=None, facts__place=place
        )
        incarnations.update(ended_at=Now())
        DriverIncarnation.objects.create(id=incarnation_id, facts={"place": place})
        for job_id, attempt in alone.items():
            rows = Job.objects.select_for_update().filter(state__in=ACTIVE)
            job = rows.filter(pk=job_id, attempts=attempt).first()
            if job is not None:
                handle = job.handle | {"boot": str(incarnation_id)}
                Job.objects.filter(pk=job.pk).update(handle=handle)


def _require_only(place: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('driver-host'))")
    others = DriverIncarnation.objects.filter(ended_at=None).exclude(facts__place=place)
    silence = timedelta(seconds=settings.SLUICE_LEASE_SECONDS)
    living = others.filter(
        Q(heartbeat_at__gte=Now() - silence)
        | Q(heartbeat_at=None, started_at__gte=Now() - silence)
    )
    if other := living.first():
        where = other.facts.get("place") or "another place"
        raise TransientError(
            "another driver host serves this lake already: %(where)s",
            seconds=settings.SLUICE_LEASE_SECONDS,
            where=where,
            code="another_host",
            hint="stop that one first; this one waits, and takes over when it"
            " has been silent for %(seconds)s s",
        )
    # silent ones: they find their row ended when they come back
    others.update(ended_at=Now())


def mark_unreachable(job_id: UUID, why: str) -> None:
    """Nobody can tell whether it still runs; whoever can will judge it."""
    with transaction.atomic():
        rows = Job.objects.select_for_update().filter(state__in=ACTIVE)
        if job := rows.filter(pk=job_id).first():
            _mark_unreachable(
                job, Sentence("whether it still runs is unknown: %(why)s", why=why)
            )


def _gone(incarnations: Collection[str]) -> dict[str, str]:
    """Those of these incarnations that no job may depend on, each with the reason.
    One that is forgotten ended long ago: its jobs waited for a lake that was away."""
    silence = timedelta(seconds=settings.SLUICE_LEASE_SECONDS)
    known = DriverIncarnation.objects.filter(pk__in=incarnations)
    dead = known.filter(
        Q(ended_at__isnull=False)
        | Q(heartbeat_at__lt=Now() - silence)
        | Q(heartbeat_at=None, started_at__lt=Now() - 4 * silence)
    )
    left = {str(pk) for pk in known.values_list("pk", flat=True)}
    return dict.fromkeys(set(incarnations) - left, GONE) | {
        str(pk): _why(ended is not None, facts or {})
        for pk, ended, facts in dead.values_list("pk", "ended_at", "facts")
    }


def _why(has_ended: bool, facts: Mapping[str, Any]) -> str:  # noqa: FBT001
    if not has_ended:
        return Sentence("its driver has fallen silent")
    return STOPPED if facts.get("was_told") else Sentence("its driver ended")


def _is_database_young() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT now() - pg_postmaster_start_time() < make_interval(secs => %s)",
            [GRACE_SECONDS],
        )
        row = cursor.fetchone()
    return bool(row and row[0])


def judge_lost(
    job_id: UUID,
    why: str,
    *,
    incarnation: str | None = None,
    attempt: int | None = None,
) -> bool:
    """Decide about one job of a dead driver; False when somebody else does, or did:
    its next attempt does not hang on `incarnation` any more, and has another number.
    None = whichever."""
    with transaction.atomic():
        rows = Job.objects.select_for_update(skip_locked=True)
        job = rows.filter(pk=job_id, state__in=ACTIVE).first()
        if job is None:
            return False
        boot = job.handle.get("boot", "")
        if incarnation not in {None, boot} or attempt not in {None, job.attempts}:
            return False
        is_known = job.kind in names_of(DriverKind)
        try:
            _fence(job)
            if not is_known:
                moves.end_unknown(job, _unknown(job, why))
                wake_host()
                notify_workers()
                return True
            state = read_lake_table(_path_of(job), commits=LOOK_BACK)
        except SluiceError as error:
            if error.code == DAMAGED:
                conclude(job, moves.fail(job, _unreadable(job, error)))
                return True
            _mark_unreachable(job, _lake_is_away(error.message))
            return False
        except OSError as error:
            _mark_unreachable(job, _lake_is_away(str(error)))
            return False
        conclude(job, _end_of(job, state, why))
        wake_host()
    return True


def _fence(job: Job) -> None:
    both: list[Scope] = ["write", "service"]
    scopes = job.handle.get("scopes", both)
    table = int(job.payload["table"])
    leases.fence_off_writers(table, [s for s in both if s in scopes])


def _path_of(job: Job) -> str:
    return str((job.spec or {}).get("table", {}).get("path", ""))


def _unreadable(job: Job, error: SluiceError) -> TerminalError:
    """Nobody will ever be able to tell, and a job that waits for it holds its table."""
    return TerminalError(
        "%(error)s; its driver is gone, and whether %(kind)s of"
        " %(subject)s committed is unknown",
        error=error.message,
        kind=Sentence(job.kind),
        subject=job.subject,
        code=error.code,
        hint=Sentence(
            "%(hint)s; the next job reads from the lake what is there", hint=error.hint
        ),
    )


def _unknown(job: Job, why: str) -> TerminalError:
    """Which commits are a job's own, only the handler of its kind can tell."""
    return TerminalError(
        "%(why)s, and this release does not know %(kind)s jobs:"
        " whether %(kind)s of %(subject)s committed is unknown",
        why=why,
        kind=Sentence(job.kind),
        subject=job.subject,
        code=UNKNOWN_KIND,
        hint="the next job of the table reads from the lake what is there",
    )


def _lake_is_away(why: str) -> str:
    return Sentence("its driver is gone and the lake cannot be asked: %(why)s", why=why)


def _mark_unreachable(job: Job, reason: str) -> None:
    if job.state in {LAUNCHING, RUNNING}:
        move_job(job, "mark_unreachable", reason=reason)
    elif job.reason != reason:
        Job.objects.filter(pk=job.pk).update(reason=reason)


def _end_of(job: Job, state: LakeState, why: str) -> End:
    """What the lake's timeline says of a lost attempt."""
    left = driver_kind(job.kind).left_by(job, state)
    facts = left.facts if state.exists else None
    seen = {"pending_compactions": list(state.pending_compactions)}
    if facts is not None and left.is_done:
        return moves.succeed(
            job,
            facts,
            reason=Sentence(
                "%(why)s, and the lake's timeline shows its commit", why=why
            ),
            report={"v": 1, "from": "timeline", "facts": dict(facts)},
        )
    if job.state == CANCELLING:
        is_gone = why in {GONE, STOPPED} or "answer" not in why
        reason = Sentence("%(why)s before it answered", why=why) if is_gone else why
        return moves.end_cancelled(job, seen, reason=reason)
    found = (
        Sentence("no commit")
        if facts is None
        else Sentence("a commit that was not compared")
    )
    return _try_again(job, left.payload, seen, why=why, found=found)


def _try_again(
    job: Job,
    payload: Mapping[str, Any],
    seen: Mapping[str, Any],
    *,
    why: str,
    found: str,
) -> End:
    is_death = job.state != LAUNCHING and why != STOPPED
    # its own driver ended before it took the job: the next one may not start either
    is_failed_start = (
        job.state == LAUNCHING and why != STOPPED and bool(job.handle.get("isolated"))
    )
    now = timezone.now()
    deaths = Deaths.of(job.payload)
    if is_death:
        deaths = deaths.another(now.timestamp())
    elif is_failed_start:
        deaths = replace(deaths, seen=deaths.seen + 1)
    if deaths.counted >= MAX_DEATHS:
        return moves.fail(job, _died_too_often(job, deaths, found), seen)
    if is_death and job.handle.get("isolated"):
        _note_own_death(job, deaths)
    return moves.try_again(
        job,
        TransientError(why),
        seen,
        wait=wait_after(deaths.seen) if is_death or is_failed_start else 0.0,
        reason=Sentence(
            "%(why)s and left %(found)s; it runs again", why=why, found=found
        ),
        payload=job.payload | deaths.to_payload() | payload,
        # a death is counted as a death, not as an attempt of its own
        max_attempts=job.max_attempts + 1,
    )


def _died_too_often(job: Job, deaths: Deaths, found: str) -> TerminalError:
    return TerminalError(
        "%(kind)s of %(subject)s: the driver died %(seen)s times under"
        " it; the last time it left %(found)s",
        kind=Sentence(job.kind),
        subject=job.subject,
        seen=deaths.seen,
        found=found,
        code="driver_died",
        hint="look at the log of the last attempt, then retry the job",
    )


def _note_own_death(job: Job, deaths: Deaths) -> None:
    """It died with nothing beside it, after it had been in two drivers that died."""
    if deaths.counted > 2:
        why = Sentence(
            "its driver died %(seen)s times, the last time alone", seen=deaths.seen
        )
        use_dedicated_driver(int(job.payload["table"]), why)
