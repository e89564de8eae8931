"""Log capture of one source as people see it: source → reader → waiting → applied.

Two statements, however many tables there are. Must not know how a follower is run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from catalog.access.policy import Principal
from catalog.models import Datasource, Table
from catalog.selectors.contents import whole_sources
from catalog.selectors.tables import TableFilter, tables_for
from core.sentences import Sentence
from ingest.contract.following import SourceLog
from ingest.models import Pipeline, SourceFollower
from ingest.models.states import LOADED, RETIRED
from ingest.pipelines import followers
from ingest.pipelines.table_status import standings
from ingest.planning.facts import LOG

# A reader reports each second, and its host writes that.
SILENT_AFTER = timedelta(seconds=45)
SILENT = "silent"
FOLLOWER_STATES = ("stopped", "starting", "waiting", "following", "failed", SILENT)
NOT_FOLLOWED = "no table of this source is followed by its log"


@dataclass(frozen=True, slots=True)
class TableCapture:
    """table, name: of the lake table. standing: see `table_status`. lag_seconds: how
    old what readers see is; None = not known. lossy: as of `Pipeline`."""

    table: int
    name: str
    state: str
    standing: str
    reason: str
    applied_position: str | None
    lag_seconds: float | None
    changes_per_second: float
    waiting: int
    lossy: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Segments that are durable and that some table has not applied.

    bytes      of all segments that are kept
    oldest_at  when the first change that waits was committed; None = none does
    """

    epochs: int = 0
    bytes: int = 0
    oldest_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class CaptureStatus:
    """observed: as of `SourceFollower`, or silent: nothing was reported for a while.
    lag_seconds, lag_bytes: of the reader behind the source; None = not known.
    """

    desired: str
    observed: str
    since: datetime | None
    reason: str
    code: str
    hint: str
    position: str | None
    lag_seconds: float | None
    lag_bytes: int | None
    rows_per_second: float
    heartbeat_at: datetime | None
    waiting: Waiting
    source_log: SourceLog
    tables: Sequence[TableCapture]


def capture_status(principal: Principal, source: Datasource) -> CaptureStatus:
    """Of a source that the caller may see; tables that they may not see are left out,
    and so is what could name them."""
    now = timezone.now()
    found = SourceFollower.objects.filter(datasource=source).first()
    row = found or SourceFollower(datasource=source)
    tables = _tables(principal, source, now)
    observed, reason, hint = observed_of(row, now)
    is_followed = bool(tables) or followers.is_followed(source)
    is_whole = whole_sources(principal)(source.name)
    since = [one.waiting_since for one in tables if one.waiting_since]
    stand = standings(one.lake_table_id or 0 for one in tables).states
    return CaptureStatus(
        desired=row.desired,
        observed=observed,
        since=row.observed_at,
        reason=(reason if is_whole else "") if is_followed else NOT_FOLLOWED,
        code=row.code,
        hint=hint if is_whole else "",
        position=row.position or None,
        lag_seconds=follower_lag(row, now) if is_followed else None,
        lag_bytes=row.log_behind if is_followed else None,
        rows_per_second=row.rows_per_second,
        heartbeat_at=row.heartbeat_at,
        waiting=Waiting(
            epochs=max((one.waiting for one in tables), default=0),
            bytes=row.waiting_bytes,
            oldest_at=min(since, default=None),
        ),
        source_log=SourceLog(
            row.log_kept, row.log_safe, row.log_behind, row.log_status
        ),
        tables=[_shown(one, now, stand) for one in tables],
    )


def observed_of(row: SourceFollower, now: datetime) -> tuple[str, str, str]:
    """(observed, reason, hint), by when its host last wrote. A reader that reports
    nothing is ended by its host."""
    is_expected, written = row.desired == SourceFollower.RUNNING, row.written_at
    if (
        not is_expected
        or row.written_at is None
        or now - row.written_at <= SILENT_AFTER
    ):
        return row.observed, row.reason, row.hint
    return (
        SILENT,
        Sentence(
            "no host of followers wrote of it since %(written)s UTC",
            written=f"{written:%Y-%m-%d %H:%M:%S}",
        ),
        "see that `manage.py followers` runs and reaches the metadata database; the"
        " source keeps its log until then",
    )


def follower_lag(row: SourceFollower, now: datetime) -> float | None:
    """Seconds behind its source; None = not known. One that is hardly behind by bytes
    has all that was committed: a log grows without commits, too."""
    heard = row.heartbeat_at
    if row.log_behind < followers.READS_ALONG_BYTES and heard is not None:
        return max(0.0, (now - heard).total_seconds())
    if row.committed_at is None:
        return None
    return max(0.0, (now - row.committed_at).total_seconds())


def _tables(principal: Principal, source: Datasource, now: datetime) -> list[Pipeline]:
    visible = tables_for(principal, TableFilter(kind=Table.LAKE))
    rows = Pipeline.objects.filter(
        source_table__database__datasource=source,
        capture=LOG,
        lake_table__in=visible.order_by().values("pk"),
    ).exclude(state=RETIRED)
    shown = rows.select_related("lake_table__database").defer("plan", "policy")
    return list(shown.order_by("lake_table__name", "pk"))


def _shown(pipeline: Pipeline, now: datetime, stand: dict[int, str]) -> TableCapture:
    table = pipeline.lake
    position = (table.last_commit_position or {}).get("to")
    seen = table.caught_up_at if pipeline.state in LOADED else None
    return TableCapture(
        table=table.pk,
        name=f"lake.{table.database.name}.{table.name}",
        state=pipeline.state,
        standing=stand.get(table.pk, pipeline.state),
        reason=pipeline.status_reason,
        applied_position=position or None,
        lag_seconds=max(0.0, (now - seen).total_seconds()) if seen else None,
        changes_per_second=pipeline.changes_per_second,
        waiting=pipeline.waiting,
        lossy=pipeline.lossy,
    )
