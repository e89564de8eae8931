"""The processes of an installation, as far as they are on record: by the pid files of
this home, by the beat of the tick, and by what drivers and readers of logs report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

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
    "followers": _("starts a reader for each source whose log is followed"),
    "gateway": _("SQL of clients, pages and REST"),
    "engine-main": _("query engine: runs the SQL"),
    "supervisor": _("starts the others again when they end"),
    "postgres-metadata": _("metadata database"),
    "redis": _("queue of work"),
}
# The Spark driver writes to the log of the one that started it.
_LOGS = {"driver_host": "driver"}


@dataclass(frozen=True, slots=True)
class Process:
    """host: where its pid is one, "" = on this machine. beat: when it last showed that
    it is at work; None = it shows that nowhere. log: its file on this machine."""

    name: str
    does: str
    state: str
    pid: int | None = None
    host: str = ""
    since: datetime | None = None
    beat: datetime | None = None
    log: str = ""


def processes() -> list[Process]:
    """In a fixed number of statements."""
    noted = _noted(settings.SLUICE_HOME / "run")
    rows = SourceFollower.objects.select_related("datasource")
    readers = {f"follower-{row.datasource_id}": row for row in rows}
    beats = _beats(readers.values())
    own = [name for name in ROLES if name in noted or name in beats]
    others = sorted(noted.keys() - ROLES.keys() - readers.keys())
    return [
        *(_one(name, noted.get(name), beats.get(name)) for name in own),
        *(_reader(name, row, noted.get(name)) for name, row in readers.items()),
        *(_one(name, noted[name]) for name in others),
    ]


def _noted(run: Path) -> dict[str, ProcessIdentity]:
    found = {p.name.removesuffix(_ENDING): p for p in run.glob(f"*{_ENDING}")}
    known = {name: read_identity(path) for name, path in sorted(found.items())}
    return {name: one for name, one in known.items() if one is not None}


def _beats(readers: Iterable[SourceFollower]) -> dict[str, datetime]:
    driver = DriverIncarnation.objects.filter(ended_at=None).order_by("started_at")
    tick = Presence.objects.values_list("seen_at", flat=True)
    found = {
        "tick": tick.first(),
        "driver": driver.values_list("heartbeat_at", flat=True).last(),
        "followers": max((row.written_at for row in readers), default=None),
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


def _reader(name: str, row: SourceFollower, noted: ProcessIdentity | None) -> Process:
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
