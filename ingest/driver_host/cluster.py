"""The master of a standalone Spark cluster, asked over its own web door.

Our applications are found by their tag, which is their name: `sluice-HOUSE-…`. So
what nobody owns any more is found and ended. It must not know jobs or rows.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import logging
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from core.errors import TransientError
from core.sentences import Sentence

log = logging.getLogger(__name__)

ANSWER_SECONDS = 5.0
ASK_SECONDS = 2.0
WATCH_SECONDS = 5.0
# a master with ten thousand finished applications still fits
LARGEST_ANSWER = 64 << 20


class MasterAway(TransientError):
    """Nobody knows what runs on the cluster now: neither gone nor running."""


@dataclass(frozen=True, slots=True)
class App:
    """One living application."""

    id: str
    tag: str


class Cluster(Protocol):
    """What a launcher asks of a cluster. Both raise MasterAway."""

    def apps(self) -> list[App]:
        """Those of this instance that have not ended."""
        ...

    def kill(self, app: App) -> None: ...


def is_standalone(master: str) -> bool:
    """Whether this Spark master is a cluster's, and no JVM of the driver alone."""
    return master.startswith("spark://")


def instance_of(place: str) -> str:
    """A short name of an installation: no two share it, and it says nothing."""
    return hashlib.sha256(place.encode()).hexdigest()[:12]


def tag_of(instance: str, origin: str, attempt: str) -> str:
    return f"sluice-{instance}-{origin or 'warm'}-{attempt}"


class StandaloneMaster:
    """url: of the master's web door, `http://host:8080`."""

    def __init__(self, url: str, *, instance: str) -> None:
        self._url = url.rstrip("/")
        self._prefix = f"sluice-{instance}-"

    def room(self) -> tuple[int, int]:
        """(workers that are alive, cores of all of them)."""
        found = self._state()
        return int(found.get("aliveworkers", 0)), int(found.get("cores", 0))

    def apps(self) -> list[App]:
        found = self._state()
        try:
            return [
                App(str(app["id"]), str(app["name"]))
                for app in found["activeapps"]
                if str(app["name"]).startswith(self._prefix)
            ]
        except (KeyError, TypeError) as error:
            raise self._away(Sentence("it does not list its applications")) from error

    def kill(self, app: App) -> None:
        form = urllib.parse.urlencode({"id": app.id, "terminate": "true"})
        self._call("/app/kill/", form.encode())

    def _state(self) -> dict[str, Any]:
        try:
            found = json.loads(self._call("/json/"))
        except ValueError as error:
            raise self._away(Sentence("its answer is no JSON")) from error
        status = found.get("status") if isinstance(found, dict) else "no JSON object"
        if status != "ALIVE":
            raise self._away(Sentence("its state is %(state)s", state=status))
        return dict(found)

    def _call(self, path: str, form: bytes | None = None) -> bytes:
        request = urllib.request.Request(self._url + path, data=form)
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
                read: bytes = answer.read(LARGEST_ANSWER)
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            raise self._away(str(getattr(error, "reason", error))) from error
        return read

    def _away(self, why: str) -> MasterAway:
        return MasterAway(
            "the Spark master at %(url)s does not answer: %(why)s",
            url=self._url,
            why=why,
            code="master_away",
            hint="see whether it runs, and whether SLUICE_SPARK_MASTER_UI is right",
        )


def find(cluster: Cluster, tag: str) -> App | None:
    return next((app for app in cluster.apps() if app.tag == tag), None)


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
