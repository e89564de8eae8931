"""The doorbell of catalog jobs: sends a task by name with a job id, nothing more.

A broker that is away loses nothing and fails nobody: the tick rings again for every
job that is due.
"""

from __future__ import annotations

import functools
import logging
import time
import uuid

from celery import Celery
from django.conf import settings
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

log = logging.getLogger(__name__)

ADVANCE = "catalog.advance_discovery"
QUIET_SECONDS = 10.0
# A message nobody took for so long is void; the tick rings anew.
EXPIRES_SECONDS = 120

_quiet_until = 0.0


def ring(job_id: uuid.UUID) -> bool:
    """Ask a worker to look at this job; whether the broker took the message.

    Never raises. After a failure the broker is left alone for QUIET_SECONDS.
    """
    global _quiet_until  # one breaker per process
    if time.monotonic() < _quiet_until:
        return False
    try:
        _producer(settings.CELERY_BROKER_URL).send_task(
            ADVANCE,
            args=[str(job_id)],
            retry=False,
            ignore_result=True,
            expires=EXPIRES_SECONDS,
        )
    except (KombuError, RedisError, OSError) as error:
        _quiet_until = time.monotonic() + QUIET_SECONDS
        log.warning("the broker is away, the tick will find the work: %s", error)
        return False
    return True


@functools.cache
def _producer(url: str) -> Celery:
    """Its own app object: the web process never loads the worker's configuration."""
    app = Celery("sluice", broker=url, set_as_current=False)
    app.conf.update(
        broker_connection_timeout=1,
        broker_transport_options={"socket_timeout": 1, "socket_connect_timeout": 1},
        task_ignore_result=True,
    )
    return app
