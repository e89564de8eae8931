"""That a page of a job is under way, written on its row before it begins.

Else a page that takes long would be begun by each worker that is rung for it, and one
that ends its worker would be begun for ever. A mark is void when its process is gone,
which only its own host can see, or when no worker could still be at it.
"""

from __future__ import annotations

import os
import socket
from datetime import datetime, timedelta
from uuid import UUID

from core import jobs
from core.models import Job
from core.processes.identity import ProcessIdentity

# Workers are ended after 120 s of one page.
LONGEST_PAGE_SECONDS = 130
_MEMBER = "page"
_own: set[UUID] = set()  # pages under way in this process


def begin(job: Job, now: datetime) -> bool:
    """Mark the row; False when its page is under way already, or was moved."""
    if _is_under_way(job, now):
        return False
    me = ProcessIdentity.own()
    facts = {
        "host": socket.gethostname(),
        "pid": me.pid,
        "born": me.start_time,
        "until": (now + timedelta(seconds=LONGEST_PAGE_SECONDS)).isoformat(),
    }
    mark = {_MEMBER: facts}
    rows = Job.objects.filter(pk=job.pk, state=jobs.RUNNING, handle=job.handle)
    if not rows.update(handle=mark):
        return False
    job.handle = mark
    _own.add(job.pk)
    return True


def take_off(job: Job) -> None:
    """Take the mark off, in the transaction of what became of the page."""
    if job.handle:
        Job.objects.filter(pk=job.pk, handle=job.handle).update(handle={})
        job.handle = {}


def end(job: Job) -> None:
    """This process is not at it any more, whatever became of the page."""
    _own.discard(job.pk)
    take_off(job)


def was_cut_off(job: Job) -> bool:
    """Whether a page was begun that never ended; ask before `begin`."""
    return _MEMBER in job.handle


def _is_under_way(job: Job, now: datetime) -> bool:
    mark = job.handle.get(_MEMBER)
    if mark is None or datetime.fromisoformat(mark["until"]) <= now:
        return False
    if mark["host"] != socket.gethostname():
        return True
    if mark["pid"] == os.getpid():
        return job.pk in _own
    return ProcessIdentity(mark["pid"], mark["born"]).is_alive()
