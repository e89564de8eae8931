"""Keeping an eye on a cluster: whether its master answers, and whose applications run.

Threads of a launcher; what they see is said as messages. Must not know jobs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ingest.driver_host.cluster import Cluster, MasterAway, find
from ingest.driver_host.launcher import Message

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


class ClusterWatch:
    """Sends `ready` when the master answers and `unreachable` while it does not, and
    ends applications of this instance that no known submission has."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        known: Callable[[], set[str]],
        say: Callable[[Message], None],
        stop: threading.Event,
    ) -> None:
        self._cluster = cluster
        self._known = known
        self._say = say
        self._stop = stop
        self._is_there = False

    def start(self) -> None:
        threading.Thread(target=self._run, name="cluster-watch", daemon=True).start()

    def _run(self) -> None:
        while True:
            self.look()
            if self._stop.wait(WATCH_SECONDS if self._is_there else ASK_SECONDS):
                return

    def look(self) -> None:
        """Asked first, then compared: a submission that begins meanwhile is known
        before its application is."""
        try:
            apps = self._cluster.apps()
            for app in apps:
                if app.tag not in self._known():
                    log.warning("ending %s, which has no owner", app.tag)
                    self._cluster.kill(app)
        except MasterAway as away:
            self._is_there = False
            self._say(Message("unreachable", {"why": away.message}))
            return
        if not self._is_there:
            self._is_there = True
            self._say(Message("ready"))
