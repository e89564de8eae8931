"""Stopping to carry a table: preview, then keep or drop its lake data, in pages.

Files are deleted a page at a time with the job row as the only memory, so a removal
survives every kill. Only paths below the lake that Sluice derived are ever touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from catalog.access import audit
from catalog.models import Table
from core.errors import SluiceError, TerminalError, TransientError
from core.jobs import ACTIVE, QUEUED
from core.jobs.moves import End, Failed, Rejected, Succeeded, enqueue, names_of
from core.jobs.pages import Done, More, Outcome, PagedKind, Waits
from core.leases import owner_of, release_all
from core.models import Job
from core.sentences import Sentence
from ingest.contract.job import REMOVE
from ingest.jobs import leases
from ingest.jobs.kinds import DriverKind, staging_path
from ingest.jobs.queue import notify_workers
from ingest.lake.place import place_at
from ingest.lake.port import Place
from ingest.models import Pipeline, TableHealth
from ingest.pipelines import compaction_plans, recording
from ingest.pipelines.selectors import of_table
from ingest.pipelines.table_commands import ask_to_stop, cancel_waiting
from ingest.pipelines.transitions import (
    locked_pipeline,
    move,
    pipeline_of,
    report_failure,
)

PAGE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class RemovalPreview:
    """What a removal would do, before anybody says yes. bytes: on disk now."""

    table: str
    drop_data: bool
    files: int
    bytes: int
    will: tuple[str, ...]


def plan_removal(table: Table, *, drop_data: bool) -> RemovalPreview:
    files = size = 0
    for file in place_at(table.path).files() if table.path else ():
        files += 1
        size += file.size
    data = Sentence(
        "keep %(table)s as it is, readable, no longer refreshed", table=table
    )
    if drop_data:
        data = Sentence(
            "delete %(files)s file, %(bytes)s bytes, and %(table)s from the catalog"
            if files == 1
            else "delete %(files)s files, %(bytes)s bytes, and %(table)s from the "
            "catalog",
            files=f"{files:,}",
            bytes=f"{size:,}",
            table=table,
        )
    return RemovalPreview(str(table), drop_data, files, size, (stopped(table), data))


def stopped(table: Table) -> Sentence:
    return Sentence(
        "Stop syncing %(source)s into %(table)s", source=table.source_name, table=table
    )


def start_removal(table: Table, *, drop_data: bool, actor: str) -> Job:
    """Queue the removal; running work on the table is asked to stop first."""
    with transaction.atomic():
        if pipeline_of(table.pk) is not None:
            _stop_pipeline(table, drop_data=drop_data, actor=actor)
        if drop_data:
            Table.objects.filter(pk=table.pk).update(is_queryable=False)
        job = Job(
            kind=REMOVE,
            subject=str(table),
            subject_id=str(table.pk),
            exclusive_key=leases.lease_name(table.pk, "write"),
            payload={"table": table.pk, "drop_data": drop_data, "path": table.path},
            requested_by=actor,
            state=QUEUED,
            queued_at=timezone.now(),
            reason="waiting for running work on the table to stop",
        )
        found = enqueue([job])[0]
        notify_workers()
        said: dict[str, Any] = {
            "job": str(found.pk),
            "data": "drop" if drop_data else "keep",
        }
        audit.record("table.remove", on=str(table), actor=actor, **said)
        return found


def _stop_pipeline(table: Table, *, drop_data: bool, actor: str) -> None:
    pipeline = locked_pipeline(table)
    move(pipeline, "remove", actor=actor, drop_data=drop_data, due_at=None)
    cancel_waiting(pipeline, list(names_of(DriverKind)), actor=actor)
    running = of_table(Job.objects.all(), str(table.pk)).filter(state__in=ACTIVE)
    for job in running.exclude(kind=REMOVE).select_for_update():
        ask_to_stop(job, "cancel", actor=actor)


def _admit(job: Job) -> bool:
    """It begins with both leases of the table, when no other job works on it."""
    jobs = of_table(Job.objects.all(), str(job.payload["table"]))
    if jobs.filter(state__in=ACTIVE).exclude(pk=job.pk).exists():
        return False
    if _take_table(job) is None:
        return False
    job.attempts = 1
    Job.objects.filter(pk=job.pk).update(attempts=1, phase="deleting", unit="files")
    return True


def _save(job: Job, found: object) -> Outcome:
    try:
        is_done = _delete_page(job)
    except TransientError as error:
        # what is deleted half way stays in the hands of this job
        return Waits(error.as_sentence)
    return Done() if is_done else More()


def _notify(job_id: UUID) -> bool:
    notify_workers()
    return True


def outcome(job: Job, end: End) -> None:
    """What the end of a removal means for its table."""
    if isinstance(end, Succeeded):
        _note_removed(job)
    if isinstance(end, Failed | Rejected):
        report_failure(job, end.error)
    if isinstance(end, Succeeded | Failed | Rejected):
        release_all(owner_of(job.pk, 1))


def _note_removed(job: Job) -> None:
    table_id = int(job.payload["table"])
    pipeline = pipeline_of(table_id)
    if pipeline is not None:
        Pipeline.objects.select_for_update().get(pk=pipeline.pk)
        move(pipeline, "retire", actor=job.requested_by)
    compaction_plans.give_up(table_id)
    # what is wrong with a table that stays as it is counts no more
    TableHealth.objects.filter(table_id=table_id).delete()
    if job.payload["drop_data"]:
        Table.objects.filter(pk=table_id).delete()


# Deletes files a page at a time, under both leases of the table.
KIND = PagedKind(
    name=REMOVE,
    title="remove",
    unit="files",
    runs_in_beat=True,
    admit=_admit,
    save=_save,
    notify=_notify,
    outcome=outcome,
    cannot_stop="a removal that has begun cannot be cancelled",
)


def _take_table(job: Job) -> object | None:
    """Both leases and fences, or again the time of their leases; None = not free."""
    return leases.take_table(
        int(job.payload["table"]),
        ("write", "service"),
        owner=owner_of(job.pk, 1),
        takes_back=True,
    )


def _delete_page(job: Job) -> bool:
    """Delete for about PAGE_SECONDS in the lake, or of what was staged once nothing is
    to be deleted there; True when nothing is left."""
    drops = job.payload["drop_data"]
    base = _require_below_lake(str(job.payload["path"])) if drops else None
    with transaction.atomic():
        if _take_table(job) is None:
            raise TransientError(
                "another job has the table's lease: nothing more is deleted until it"
                " gives it back",
                code="lease_held",
            )
    if base is not None:
        deleted, is_gone = base.delete_page(PAGE_SECONDS)
        Job.objects.filter(pk=job.pk).update(done=job.done + deleted, progress_at=Now())
        if not is_gone:
            return False
        recording.forget_table(int(job.payload["table"]))
    return _delete_staged(int(job.payload["table"]))


def _delete_staged(table_id: int) -> bool:
    """True when nothing is left, or nothing can be done: that holds up no removal."""
    try:
        return place_at(staging_path(table_id)).delete_page(PAGE_SECONDS)[1]
    except SluiceError:
        return True


def _require_below_lake(path: str) -> Place:
    lake, base = place_at(settings.SLUICE_LAKE_URI), place_at(path)
    names = base.uri.removeprefix(f"{lake.uri}/").split("/")
    is_below = base.uri.startswith(f"{lake.uri}/") and len(names) == 2
    if not is_below or names[0][:1] in ("", "_", ".") or names[1] in ("", ".", ".."):
        raise TerminalError(
            "%(path)s is not a lake table's path: nothing was deleted",
            path=path,
            code="path_refused",
        )
    return base
