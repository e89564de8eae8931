"""Waking a host: whoever changes rows that it reads notifies a channel of PostgreSQL as
of its commit. A message that is lost costs nothing but the host's next look.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

import psycopg
from django.db import connection
from psycopg import sql

log = logging.getLogger(__name__)

CHECK_SECONDS = 1.0
AGAIN_SECONDS = 2.0


class Host(Protocol):
    def wake(self) -> None: ...

    def step(self) -> None: ...

    def stop(self) -> None: ...


def serve(host: Host, *, channel: str, stop: threading.Event) -> None:
    """Steps of the host, woken by the channel, until `stop` is set; then its end."""
    woken = (channel, host.wake, stop)
    threading.Thread(target=listen, args=woken, daemon=True).start()
    try:
        while not stop.is_set():
            host.step()
    finally:
        host.stop()


def listen(channel: str, wake: Callable[[], None], stop: threading.Event) -> None:
    """Call `wake` for each message until `stop` is set, on a connection of its own."""
    parameters = connection.get_connection_params()
    while not stop.is_set():
        try:
            _listen(parameters, channel, wake, stop)
        except psycopg.Error as error:
            log.debug("not notified on %s now: %s", channel, error)
            stop.wait(AGAIN_SECONDS)


def _listen(
    parameters: dict[str, object],
    channel: str,
    wake: Callable[[], None],
    stop: threading.Event,
) -> None:
    with psycopg.connect(**parameters, autocommit=True) as link:  # type: ignore[arg-type]
        link.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        wake()  # what came before
        while not stop.is_set():
            # several that came together are one
            if list(link.notifies(timeout=CHECK_SECONDS, stop_after=1)):
                wake()
