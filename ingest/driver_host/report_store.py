"""What drivers said, as rows: lines of logs, their own state, how far jobs are.

Called by the host with what it has gathered; each call may be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models.functions import Now

from core.jobs import CANCELLING, RUNNING
from core.leases import owner_of
from core.models import Job, JobLog
from core.processes.identity import ProcessIdentity
from ingest.contract.job import Progress
from ingest.driver_host.attempts import InFlightJob
from ingest.driver_host.incarnation import Incarnation
from ingest.jobs import leases
from ingest.models import DriverIncarnation


def write_logs(lines: Sequence[tuple[str, str, str]]) -> None:
    """lines: (job id, level, message); those of jobs that are gone are dropped."""
    known = {job_id for job_id, _, _ in lines}
    rows = Job.objects.filter(pk__in=known).values_list("pk", flat=True)
    present = {str(pk) for pk in rows}
    JobLog.objects.bulk_create(
        [
            JobLog(job_id=UUID(job_id), level=level, message=text)
            for job_id, level, text in lines
            if job_id in present
        ]
    )


def write_incarnation(incarnation: Incarnation, *, pid: int | None, place: str) -> bool:
    """That the driver lives, and once what it said of itself. False when it counts as
    ended: another host took over while this one was silent."""
    changes: dict[str, Any] = {"heartbeat_at": Now(), "pid": pid}
    if incarnation.away:
        facts = {"place": place, "away": incarnation.away}
        changes |= {"ready_at": None, "facts": facts}
    elif incarnation.is_ready and incarnation.facts is not None:
        changes |= {"ready_at": Now(), "facts": {"place": place} | incarnation.facts}
        found = ProcessIdentity.of(pid) if pid else None
        changes["pid_started"] = found.start_time if found else None
        incarnation.facts = None
    return bool(
        DriverIncarnation.objects.filter(pk=incarnation.id, ended_at=None).update(
            **changes
        )
    )


def write_progress(in_flight: Sequence[InFlightJob]) -> None:
    """Their leases renewed, and what is new of each."""
    leases.renew([owner_of(f.job_id, f.attempt) for f in in_flight])
    Job.objects.filter(
        pk__in=[f.job_id for f in in_flight], state__in=[RUNNING, CANCELLING]
    ).update(progress_at=Now())
    for flight in in_flight:
        progress, flight.progress = flight.progress, None
        if progress is None:
            continue
        Job.objects.filter(
            pk=flight.job_id, attempts=flight.attempt, finished_at=None
        ).update(
            phase=progress.phase[:60],
            done=progress.done,
            total=progress.total,
            unit=progress.unit[:20],
            reason=progress.reason,
            **_moved(progress),
        )


def _moved(progress: Progress) -> dict[str, Any]:
    """By how long ago: clocks of drivers may be wrong."""
    if progress.still is None:
        return {}
    return {"moved_at": Now() - timedelta(seconds=progress.still)}
