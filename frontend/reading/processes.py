"""The processes of an installation, as far as they are on record: by the pid files of
this home, by the beat of the tick, and by what drivers and followers report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from core.processes.identity import ProcessIdentity, read_identity
from frontend.templatetags.figures import rounded
from ingest.models import DriverIncarnation, SourceFollower
from ingest.models.alerts import Presence
from ingest.pipelines.capture_status import SILENT, observed_of

SILENT_AFTER = timedelta(minutes=1)
_ENDING = ".pid.json"
# By the names of their pid files, in the order in which they are shown.
ROLES = {
    "web": _("pages and REST"),
    "worker": _("connection tests, discovery, removals"),
    "tick": _("starts what is due: syncs, maintenance, alerts"),
    "driver_host": _("claims jobs and hands them to the Spark driver"),
    "driver": _("Spark driver: reads sources, writes the lake"),
    "followers": _("starts a follower for each source whose log is read"),
    "gateway": _("SQL of clients, pages and REST"),
    "engine-main": _("query engine: runs the SQL"),
    "supervisor": _("starts the others again when they end"),
    "postgres-metadata": _("metadata database"),
    "redis": _("queue of work"),
    "postgres-demo": _("source of the demo"),
    "demo_writer": _("changes rows of the demo's source"),
}
# The Spark driver writes to the log of the one that started it.
_LOGS = {"driver_host": "driver"}


@dataclass(frozen=True, slots=True)
class Process:
    """host: where its pid is one, "" = on this machine. beat: when it last showed that
    it is at work; None = it shows that nowhere. log: its file on this machine. facts:
    what it reports of itself."""

    name: str
    does: str
    state: str
    pid: int | None = None
    host: str = ""
    since: datetime | None = None
    beat: datetime | None = None
    log: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


def processes() -> list[Process]:
    """In a fixed number of statements."""
    noted = _noted(settings.SLUICE_HOME / "run")
    rows = SourceFollower.objects.select_related("datasource")
    followers = {f"follower-{row.datasource_id}": row for row in rows}
    running = DriverIncarnation.objects.filter(ended_at=None)
    driver = running.order_by("started_at").last()
    beats = _beats(followers.values(), driver)
    own = [name for name in ROLES if name in noted or name in beats]
    others = sorted(noted.keys() - ROLES.keys() - followers.keys())
    found = (_one(name, noted.get(name), beats.get(name)) for name in own)
    return [
        *(_driver(one, driver) if one.name == "driver" else one for one in found),
        *(_follower(name, row, noted.get(name)) for name, row in followers.items()),
        *(_one(name, noted[name]) for name in others),
    ]


def _noted(run: Path) -> dict[str, ProcessIdentity]:
    found = {p.name.removesuffix(_ENDING): p for p in run.glob(f"*{_ENDING}")}
    known = {name: read_identity(path) for name, path in sorted(found.items())}
    return {name: one for name, one in known.items() if one is not None}


def _beats(
    followers: Iterable[SourceFollower], driver: DriverIncarnation | None
) -> dict[str, datetime]:
    tick = Presence.objects.values_list("seen_at", flat=True)
    found = {
        "tick": tick.first(),
        "driver": (driver.heartbeat_at or driver.started_at) if driver else None,
        "followers": max((row.written_at for row in followers), default=None),
    }
    return {name: at for name, at in found.items() if at is not None}


def _one(
    name: str, noted: ProcessIdentity | None, beat: datetime | None = None
) -> Process:
    state = "READY"
    if noted is not None and not noted.is_alive():
        state = "STOPPED"
    elif beat is not None and timezone.now() - beat > SILENT_AFTER:
        state = SILENT
    return Process(
        name,
        str(ROLES.get(name, "")),
        state,
        pid=noted.pid if noted else None,
        since=_since(noted),
        beat=beat,
        log=_log(_LOGS.get(name, name)),
    )


def _driver(one: Process, row: DriverIncarnation | None) -> Process:
    """Its process is there before it takes work."""
    if row is None:
        return one
    is_starting = one.state == "READY" and row.ready_at is None
    state = "STARTING" if is_starting else one.state
    since = one.since or row.started_at
    return replace(
        one, state=state, pid=one.pid or row.pid, since=since, facts=row.facts
    )


def _follower(name: str, row: SourceFollower, noted: ProcessIdentity | None) -> Process:
    does = gettext("reads the log of %(source)s, %(rate)s rows a second") % {
        "source": row.datasource.name,
        "rate": rounded(row.rows_per_second),
    }
    return Process(
        name,
        does,
        observed_of(row, timezone.now())[0],
        pid=row.pid,
        host=row.host if row.pid and noted is None else "",
        since=_since(noted) or row.observed_at,
        beat=row.heartbeat_at,
        log=_log(name),
    )


def _since(noted: ProcessIdentity | None) -> datetime | None:
    return datetime.fromtimestamp(noted.start_time, UTC) if noted else None


def _log(name: str) -> str:
    path = settings.SLUICE_HOME / "logs" / f"{name}.log"
    return str(path) if path.is_file() else ""
