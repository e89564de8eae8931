"""Keeping an eye on a cluster: what runs there, and whether an application is gone.

Waits on threads of a launcher. Must not know jobs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ingest.driver_host.cluster import Cluster, MasterAway, find

log = logging.getLogger(__name__)

ASK_SECONDS = 2.0
WATCH_SECONDS = 5.0


def confirm_gone(
    cluster: Cluster,
    tag: str,
    *,
    unreachable: Callable[[str], None],
    stop: threading.Event,
) -> bool:
    """Wait until the master lists no application of this tag; False when told to stop.

    Its driver is dead already, but executors go on for a moment, and with the master
    away nobody knows: that is said by `unreachable` again and again.
    """
    while not stop.is_set():
        try:
            app = find(cluster, tag)
            if app is None:
                return True
            cluster.kill(app)
        except MasterAway as away:
            unreachable(away.message)
        stop.wait(ASK_SECONDS)
    return False


def watch(
    cluster: Cluster, *, known: Callable[[], set[str]], stop: threading.Event
) -> None:
    """Until told to stop, end what runs there of this instance and no driver knows."""
    while True:
        try:
            # asked first, then compared: a driver that starts meanwhile is known before
            # its application is
            for app in cluster.apps():
                if app.tag not in known():
                    log.warning("ending %s, which has no owner", app.tag)
                    cluster.kill(app)
        except MasterAway as away:
            log.debug("not looked for applications: %s", away.message)
        if stop.wait(WATCH_SECONDS):
            return
