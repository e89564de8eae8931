"""Ringing the doorbell: after the commit, a message says that there is something to do.

The message carries a task name and an id, never a job. A broker that is away fails
nothing and costs one short attempt per ten seconds: the tick finds every due row.
"""

from __future__ import annotations

import functools
import logging
import time

from celery import Celery
from django.conf import settings
from django.db import transaction
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

log = logging.getLogger(__name__)

QUIET_SECONDS = 10.0
# A message nobody took for so long is void; the tick finds the work anyway.
EXPIRES_SECONDS = 60
TICK = "ingest.tick"

_quiet_until = 0.0


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


def ring(task: str = TICK, *args: str) -> None:
    """Send `task` once the surrounding transaction has committed; never raises."""
    transaction.on_commit(functools.partial(_send, task, args), robust=True)


def _send(task: str, args: tuple[str, ...]) -> None:
    global _quiet_until  # one breaker per process
    if time.monotonic() < _quiet_until:
        return
    try:
        _producer(settings.CELERY_BROKER_URL).send_task(
            task,
            args=list(args),
            retry=False,
            ignore_result=True,
            expires=EXPIRES_SECONDS,
        )
    except (KombuError, RedisError, OSError) as error:
        _quiet_until = time.monotonic() + QUIET_SECONDS
        log.warning("the broker is away, the tick will find the work: %s", error)
