"""What a host writes of its sources: one statement a second, and the moves of tables
that the log brings on no more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from django.db import connection, transaction

from core.json_values import storable
from core.sentences import Sentence, restored, says, stored
from ingest.contract.following import FollowedTable
from ingest.followers_host.followed import FollowedSource
from ingest.models import Pipeline
from ingest.models.states import LOADED, LOADING, NEEDS_RESYNC
from ingest.pipelines import gone_shards, schema_diff, shards, transitions
from ingest.pipelines.schema_drift import ACTOR, settle
from ingest.planning.facts import LOG

_NOT_TAKEN = "the follower of the source's log does not take its rows: %(why)s"
# Written each time, and only with a report: what was reported last stays.
_OWN = {
    "observed": "text", "reason": "text", "code": "text", "hint": "text",
    "host": "text", "pid": "int", "rows_per_second": "float8",
}  # fmt: skip
_REPORTED = {
    "position": "text", "number": "bigint", "first": "bigint", "rows": "bigint",
    "log_kept": "bigint", "log_safe": "bigint", "log_status": "text",
}  # fmt: skip
# A host that was stopped while another one took a source over writes nothing of it.
_WRITE = """
UPDATE ingest_sourcefollower f SET
  {own}, {reported}, written_at = now(),
  committed_at = coalesce(e.committed_at, f.committed_at),
  waiting_bytes = coalesce(e.waiting_bytes, f.waiting_bytes),
  observed_at = CASE WHEN (f.observed, f.code) = (e.observed, e.code)
    THEN f.observed_at ELSE now() END,
  heartbeat_at = CASE WHEN e.is_heard AND e.observed = 'following' THEN now()
    ELSE f.heartbeat_at END,
  -- one that does not reach its source does not know how far that has come
  log_behind = CASE WHEN e.is_heard AND e.observed = 'following' THEN e.log_behind
    ELSE f.log_behind END
FROM jsonb_to_recordset(%s::jsonb) AS e(
  datasource_id bigint, is_heard boolean, committed_at timestamptz,
  waiting_bytes bigint, log_behind bigint, {types})
JOIN core_lease l ON l.name = 'follower:' || e.datasource_id
WHERE f.datasource_id = e.datasource_id AND l.owner = %s
""".format(
    own=", ".join(f"{name} = e.{name}" for name in _OWN),
    reported=", ".join(
        f"{name} = CASE WHEN e.is_heard THEN e.{name} ELSE f.{name} END"
        for name in _REPORTED
    ),
    types=", ".join(f"{name} {kind}" for name, kind in (_OWN | _REPORTED).items()),
)


def write_all(sources: Iterable[FollowedSource], *, owner: str, host: str) -> None:
    """Their rows, as far as the leases are this owner's."""
    written = list(sources)
    if not written:
        return
    rows = [storable(_row(source, host)) for source in written]
    with connection.cursor() as cursor:
        cursor.execute(_WRITE, [json.dumps(rows), owner])
    for source in written:
        source.is_heard = False


def _row(source: FollowedSource, host: str) -> dict[str, Any]:
    state, child = source.state, source.child
    committed = state.committed and datetime.fromtimestamp(state.committed / 1e6, UTC)
    return {
        "datasource_id": source.datasource_id,
        "is_heard": source.is_heard,
        "observed": source.observed,
        "reason": stored(source.reason),
        "code": source.code[:80],
        "hint": stored(source.hint),
        "host": host if child else "",
        "pid": child.process.pid if child else None,
        "position": state.position,
        "number": state.number,
        "first": state.first,
        "committed_at": committed.isoformat() if committed else None,
        "rows": state.rows,
        "rows_per_second": source.rows_per_second,
        "waiting_bytes": state.waiting_bytes,
        "log_kept": state.log.kept,
        "log_safe": state.log.safe,
        "log_behind": state.log.behind,
        "log_status": state.log.status[:40],
    }


def stop_tables(tables: Iterable[FollowedTable]) -> None:
    """Tables whose rows are not taken any more need a resync; one that is being loaded
    gets to know after its load."""
    problems = _problems(tables)
    if not problems:
        return
    stopped = Pipeline.objects.filter(lake_table__in=problems, state__in=LOADED)
    for pk in list(stopped.filter(capture=LOG).values_list("pk", flat=True)):
        with transaction.atomic():
            pipeline = Pipeline.objects.select_for_update().get(pk=pk)
            if pipeline.state in LOADED and pipeline.lake_table_id is not None:
                reason = problems[pipeline.lake_table_id]
                transitions.lose_position(pipeline, reason=reason)


def note_gone(tables: Iterable[FollowedTable]) -> None:
    """Of sharded tables those of which there is no table at the source any more: the
    others go on, and somebody decides what becomes of their rows."""
    gone = {one.table_id: one.gone for one in tables if one.gone}
    if not gone:
        return
    rows = Pipeline.objects.filter(lake_table__in=gone, capture=LOG)
    for pk in list(
        rows.filter(state__in=gone_shards.STATES).values_list("pk", flat=True)
    ):
        with transaction.atomic():
            pipeline = Pipeline.objects.select_for_update().get(pk=pk)
            if pipeline.lake_table_id is not None:
                gone_shards.note_gone(pipeline, gone[pipeline.lake_table_id])


def explain_loads(
    tables: Iterable[FollowedTable], said: Mapping[int, str]
) -> dict[int, str]:
    """Says of tables that are being loaded why the follower does not take their rows,
    for which their loads wait, and takes it back once it does. Columns may have changed
    again: they are read at the source, once for each reason. said, and what is
    returned: the reason by table."""
    problems = _problems(tables)
    if not problems and not said:
        return {}
    loaded = Pipeline.objects.filter(
        lake_table__in={*problems, *said}, capture=LOG, state__in=LOADING
    )
    found: dict[int, str] = {}
    for pk in list(loaded.values_list("pk", flat=True)):
        with transaction.atomic():
            pipeline = Pipeline.objects.select_for_update().get(pk=pk)
            if pipeline.state not in LOADING or pipeline.lake_table_id is None:
                continue
            if why := problems.get(pipeline.lake_table_id):
                found[pipeline.lake_table_id] = why
                transitions.say(pipeline, Sentence(_NOT_TAKEN, why=why))
                if said.get(pipeline.lake_table_id) != why:
                    shards.look_at(pipeline, by=ACTOR)
            elif says(pipeline.status_reason, _NOT_TAKEN):
                transitions.say(pipeline, "")
    return found


def _problems(tables: Iterable[FollowedTable]) -> dict[int, str]:
    """Why rows of a table are not taken, as it can be stored."""
    return {
        one.table_id: restored(storable(stored(one.problem)))
        for one in tables
        if one.problem
    }


def look_at_columns(tables: Iterable[FollowedTable]) -> set[int]:
    """Read the columns of these at the source again: what is new there becomes an
    ordinary change of the schema, and so does what is gone. Returns those that are
    read: not the ones that are being loaded."""
    looked = set()
    of = {one.table_id: one for one in tables}
    for pipeline in _followed_by([*of]):
        one = of[pipeline.lake_table_id or 0]
        _note_told(pipeline.pk, one)
        shards.look_at(pipeline, by=ACTOR)
        looked.add(one.table_id)
    return looked


def _note_told(pipeline_id: int, one: FollowedTable) -> None:
    """A discovery may have seen these columns before."""
    if not one.new_columns:
        return
    with transaction.atomic():
        pipeline = Pipeline.objects.select_for_update().get(pk=pipeline_id)
        schema_diff.note_told(pipeline, one.new_columns, one.older)
        if pipeline.state in LOADED:
            settle(pipeline)


def _followed_by(lake_tables: list[int]) -> Iterator[Pipeline]:
    if lake_tables:
        rows = Pipeline.objects.filter(lake_table__in=lake_tables, capture=LOG)
        related = "source_table__database__datasource"
        states = [*LOADED, NEEDS_RESYNC]
        yield from rows.filter(state__in=states).select_related(related)
