"""Rows that show what sessions applied: position, lag, columns, and the states that
follow from them. Read and written together, for hundreds of tables at once.

Must not know what was reported before.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from django.db import connection, transaction
from django.utils import timezone

from catalog.models import Column
from core import outbox
from core.database_errors import is_away
from core.outbox import NewEvent
from core.sentences import Sentence, says
from ingest.contract.applying import Applied, added
from ingest.jobs.leases import use_dedicated_driver
from ingest.models import Pipeline, SourceFollower, states
from ingest.pipelines import transitions
from ingest.pipelines.followers import READS_ALONG_BYTES
from ingest.pipelines.policies.policy import Effective, late_moment
from ingest.pipelines.schema_diff import show_columns
from ingest.pipelines.schema_drift import WAITED
from ingest.pipelines.transitions import note_changes
from ingest.planning.facts import LOG

log = logging.getLogger(__name__)

_PIPELINES = """
UPDATE ingest_pipeline p SET position = n.position, failures = 0,
  due_since = coalesce(n.caught_up_at, p.due_since), late_at = n.late_at,
  waiting = n.waiting, waiting_since = n.waiting_since, changes_per_second = n.rate,
  rows_applied = p.rows_applied + n.rows, lossy = n.lossy
FROM jsonb_to_recordset(%s::jsonb) AS n(pipeline bigint, position text,
  caught_up_at timestamptz, late_at timestamptz, waiting int,
  waiting_since timestamptz, rate float8, rows bigint, lossy jsonb)
WHERE p.id = n.pipeline
"""
_WIDE = Sentence(
    "its source's log has rows so wide that a compaction of some of them can use up a"
    " driver's memory"
)
_TABLES = """
UPDATE catalog_table t SET
  caught_up_at = coalesce(n.caught_up_at, t.caught_up_at),
  last_commit_epoch = n.epoch,
  last_commit_position = jsonb_build_object('to', n.position),
  last_commit_instant = coalesce(n.instant, t.last_commit_instant),
  last_commit_at = CASE WHEN n.instant IS NULL THEN t.last_commit_at ELSE now() END
FROM jsonb_to_recordset(%s::jsonb) AS n("table" bigint, position text, epoch bigint,
  instant text, caught_up_at timestamptz)
WHERE t.id = n."table"
"""
# Of tables at rest, hundreds at once, whose pipelines stay as they are: that one would
# be late later than its row says is found out once it would be late by its row.
_MOMENTS = """
UPDATE catalog_table t SET
  caught_up_at = greatest(%(moment)s, least(t.caught_up_at, %(now)s))
FROM ingest_pipeline p, unnest(%(tables)s::bigint[], %(positions)s::text[],
  %(epochs)s::bigint[]) AS n("table", position, epoch)
WHERE t.id = n."table" AND p.lake_table_id = t.id AND p.capture = %(capture)s
  AND p.state = %(state)s AND p.status_reason = '' AND p.failures = 0
  AND p.position = n.position AND t.last_commit_epoch = n.epoch
  AND p.waiting = 0 AND p.changes_per_second = 0 AND p.late_at <= %(late)s
RETURNING t.id
"""


@dataclass(frozen=True, slots=True)
class Known:
    """What is wanted of a table that is applied."""

    datasource_id: int
    policy: Effective


def act_alone(table_id: int, act: Callable[[Pipeline], object]) -> None:
    """Act on the locked pipeline of a table. What fails for one table must not hold up
    the others; a database that is away goes up."""
    try:
        with transaction.atomic():
            rows = Pipeline.objects.select_for_update(of=("self",))
            rows = rows.filter(lake_table=table_id, capture=LOG)
            related = ("lake_table__database", "source_table__database__datasource")
            found = rows.exclude(state=states.RETIRED).select_related(*related).first()
            if found is not None:
                act(found)
    except Exception as error:
        if is_away(error):
            raise
        log.exception("what was reported of table %d was not written", table_id)


class _Row(NamedTuple):
    """What is read of a pipeline and its lake table. Not whole rows: hundreds may be
    level."""

    pk: int
    lake_table_id: int
    state: str
    status_reason: str
    failures: int
    late_at: datetime | None
    lossy: dict[str, int]
    caught_up_at: datetime | None


_READ = (*_Row._fields[:-1], "lake_table__caught_up_at")


@dataclass(frozen=True, slots=True)
class _Shown:
    """A table after a report. caught_up_at: the lake has all that was committed at the
    source until then; None = not known. event: of the pipeline, "" = it stays."""

    row: _Row
    applied: Applied
    caught_up_at: datetime | None
    late_at: datetime | None
    event: str = ""
    reason: str = ""
    has_recovered: bool = False


class AppliedRows:
    """All tables of a second."""

    def __init__(
        self,
        known: Mapping[int, Known],
        applied: Mapping[int, Applied],
        rates: Mapping[int, float],
    ) -> None:
        self._known = known
        self._rates = rates
        self._applied = applied
        self._now = timezone.now()
        self._read_until = _read_until({each.datasource_id for each in known.values()})

    def write(self) -> None:
        others = self._applied.keys() - self._move_moments()
        if not others:
            return
        rows = Pipeline.objects.exclude(state=states.RETIRED)
        rows = rows.filter(lake_table__in=others, capture=LOG)
        read = map(_Row._make, rows.values_list(*_READ))
        shown = [self._shown(row) for row in read if row.lake_table_id in self._known]
        if not shown:
            return
        with transaction.atomic():
            self._store(shown)
            note_changes(
                each.applied.table_id for each in shown if each.applied.instant
            )
            for each in shown:
                if each.applied.is_wide:
                    use_dedicated_driver(each.applied.table_id, _WIDE)
        _show_columns([each.applied for each in shown if each.applied.columns])
        level = [each for each in shown if each.event == "catch_up"]
        _catch_up(level)
        for each in shown:
            if each.event != "catch_up" and (each.event or each.has_recovered):
                act_alone(each.applied.table_id, partial(_move, each))

    def _move_moments(self) -> set[int]:
        """Of tables that have nothing new but a moment; which these are."""
        level: dict[tuple[datetime, datetime], list[Applied]] = defaultdict(list)
        for pk, each in self._applied.items():
            if (known := self._known.get(pk)) is None or not each.is_followed:
                continue
            if (moment := self._read_until.get(known.datasource_id)) is None:
                continue
            if each.waiting or self._rates[pk] or each != each.without_commit():
                continue
            late = late_moment(known.policy, moment, capture=LOG)
            if late is not None and late > self._now:
                level[moment, late].append(each)
        moved: set[int] = set()
        for (moment, late), tables in level.items():
            given: dict[str, Any] = {
                "moment": moment,
                "late": late,
                "now": self._now,
                "tables": [each.table_id for each in tables],
                "positions": [each.position for each in tables],
                "epochs": [each.epoch for each in tables],
                "capture": LOG,
                "state": states.LIVE,
            }
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(_MOMENTS, given)
                moved |= {pk for (pk,) in cursor.fetchall()}
        return moved

    def _shown(self, row: _Row) -> _Shown:
        applied = self._applied[row.lake_table_id]
        known = self._known[row.lake_table_id]
        caught_up_at = self._caught_up_at(row, applied, known)
        until = caught_up_at or row.caught_up_at or self._now
        late_at = late_moment(known.policy, until, capture=LOG)
        was_late = row.late_at is None
        is_late = late_at is not None and late_at <= self._now
        event, reason = self._event(row, applied, until, known.policy)
        return _Shown(
            row,
            applied,
            caught_up_at,
            # an alert that is open is not looked for again
            row.late_at if is_late else late_at,
            event,
            reason,
            has_recovered=row.failures > 0
            or (was_late and not is_late)
            or (not applied.waiting and says(row.status_reason, *WAITED)),
        )

    def _caught_up_at(
        self, row: _Row, applied: Applied, known: Known
    ) -> datetime | None:
        read = self._read_until.get(known.datasource_id)
        if not applied.is_followed:
            return None
        if not applied.waiting:
            # what it had it still has, where its reader is away from a source at rest,
            # of which the last commit may be of yesterday
            before = min(row.caught_up_at or self._now, self._now)
            return max(read, before) if read and row.caught_up_at else read
        oldest = _moment(applied.oldest)
        if oldest is None:
            return None
        return min(oldest, read or oldest)

    def _event(
        self,
        row: _Row,
        applied: Applied,
        until: datetime,
        policy: Effective,
    ) -> tuple[str, str]:
        """As late as its policy allows, and half of that, so that it does not go to
        and fro. until: the lake has what was committed until then."""
        lag = (self._now - until).total_seconds()
        is_live = applied.is_live and applied.is_followed
        if row.state == states.CATCHING_UP and is_live:
            is_level = not applied.waiting or lag <= policy.late_after / 2
            return ("catch_up", "") if is_level else ("", "")
        if row.state == states.LIVE and lag > policy.late_after:
            behind = Sentence(
                "%(waiting)s segments of its stream wait", waiting=applied.waiting
            )
            return "fall_behind", Sentence(
                "it is %(lag)s s behind its source: %(behind)s",
                lag=f"{lag:.0f}",
                behind=behind,
            )
        return "", ""

    def _store(self, shown: Iterable[_Shown]) -> None:
        rows = [
            {
                "pipeline": each.row.pk,
                "table": each.applied.table_id,
                "position": each.applied.position,
                "epoch": each.applied.epoch,
                "instant": each.applied.instant or None,
                "caught_up_at": _text(each.caught_up_at),
                "late_at": _text(each.late_at),
                "waiting": each.applied.waiting,
                "waiting_since": _text(_moment(each.applied.oldest)),
                "rate": self._rates[each.applied.table_id],
                "rows": each.applied.rows,
                "lossy": added(each.row.lossy, each.applied.lossy),
            }
            for each in shown
        ]
        with connection.cursor() as cursor:
            cursor.execute(_PIPELINES, [json.dumps(rows)])
            cursor.execute(_TABLES, [json.dumps(rows)])


def _show_columns(applied: Sequence[Applied]) -> None:
    """Of tables whose plan has other columns by now than the catalogue shows."""
    shown: dict[int, set[tuple[str, str]]] = {}
    rows = Column.objects.filter(table__in=[each.table_id for each in applied])
    for table, name, type in rows.values_list("table_id", "source_name", "type"):
        shown.setdefault(table, set()).add((name, type))
    for each in applied:
        if shown.get(each.table_id) != {*each.columns}:
            said = [{"source_name": name, "type": type} for name, type in each.columns]
            act_alone(each.table_id, partial(show_columns, committed=said))


def _moment(micros: int) -> datetime | None:
    """Of microseconds since 1970; 0 = none."""
    return datetime.fromtimestamp(micros / 1e6, UTC) if micros else None


def _text(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _read_until(datasources: Iterable[int]) -> dict[int, datetime]:
    """By source: everything that was committed until then is in its stream."""
    rows = SourceFollower.objects.filter(datasource__in=list(datasources))
    found = {}
    for row in rows:
        reads_along = row.observed == "following" and row.log_behind < READS_ALONG_BYTES
        until = row.heartbeat_at if reads_along else row.committed_at
        if until is not None:
            found[row.datasource_id] = until
    return found


def _catch_up(level: Sequence[_Shown]) -> None:
    """Hundreds at once behind a start."""
    with transaction.atomic():
        rows = Pipeline.objects.select_for_update().filter(
            pk__in=[each.row.pk for each in level], state=states.CATCHING_UP
        )
        found = list(rows.order_by("pk").defer("plan", "policy"))
        transitions.catch_up_all(found)
        outbox.append(*(_succeeded(row.lake_table_id, is_level=True) for row in found))


def _move(shown: _Shown, pipeline: Pipeline) -> None:
    is_legal = states.PIPELINE.is_legal(pipeline.state, shown.event)
    if shown.event and is_legal:
        transitions.move(pipeline, shown.event, reason=shown.reason)
    elif shown.has_recovered and pipeline.state in states.LOADED:
        transitions.say(pipeline, "")
    is_level = shown.late_at is not None and shown.event != "fall_behind"
    outbox.append(_succeeded(shown.applied.table_id, is_level=is_level))


def _succeeded(table_id: int | None, *, is_level: bool) -> NewEvent:
    data: dict[str, Any] = {"table": table_id, "caught_up": is_level}
    return NewEvent("apply.succeeded", "table", str(table_id), data)
