"""Notifications: a message says that there is something to do, never its outcome.

It carries a task name and an id, never a job. A broker that is away fails nothing and
costs one short attempt per ten seconds: the tick finds every row that is due.
"""

from __future__ import annotations

import functools
import logging
import time

from celery import Celery
from django.conf import settings
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from core.retries import CircuitBreaker

log = logging.getLogger(__name__)

QUIET_SECONDS = 10.0
# A message no worker took for so long is void; the tick sends another.
EXPIRES_SECONDS = 60

_breaker = CircuitBreaker(QUIET_SECONDS)  # one per process


def send(task: str, *args: str) -> bool:
    """Whether the broker took the message. Never raises."""
    if not _breaker.allows(time.monotonic()):
        return False
    try:
        _producer(settings.CELERY_BROKER_URL).send_task(
            task,
            args=list(args),
            retry=False,
            ignore_result=True,
            expires=EXPIRES_SECONDS,
        )
    except (KombuError, RedisError, OSError) as error:
        _breaker.fail(time.monotonic())
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
