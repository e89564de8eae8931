"""The doorbell of catalog jobs: sends a task by name with a job id, nothing more.

A broker that is away loses nothing and fails nobody: the tick rings again for every
job that is due.
"""

from __future__ import annotations

import logging
import uuid

from celery import current_app
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

log = logging.getLogger(__name__)

ADVANCE = "catalog.advance_discovery"


def ring(job_id: uuid.UUID) -> bool:
    """Ask a worker to look at this job; whether the broker took the message."""
    try:
        current_app.send_task(ADVANCE, args=[str(job_id)], retry=False, expires=120)
    except (KombuError, RedisError, OSError) as error:
        log.warning(
            "broker away, the tick will ring again",
            extra={"job_id": str(job_id), "error": type(error).__name__},
        )
        return False
    return True
