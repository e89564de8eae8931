"""Tables that do not go on and hold back more of their source's log than they may.

The one that has applied least keeps what came since, in the lake: its own rows of old
segments, and all of those that came in the last minutes. Beyond its `max_waiting_bytes`
or its `max_waiting_seconds` only a resync brings it on.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import or_

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from core.sentences import Sentence, as_sentence, stored_id
from ingest.lake.chain import read_kept, stream_folder
from ingest.models import Pipeline, SourceFollower
from ingest.models.states import FAILED, LOADED, PAUSED
from ingest.pipelines import needed_resync, transitions
from ingest.pipelines.log_tables import stream_of
from ingest.pipelines.policies.policy import LEAST_WAITING_BYTES, LEAST_WAITING_SECONDS
from ingest.pipelines.policies.store import policy_of
from ingest.pipelines.schema_drift import WAITED
from ingest.pipelines.table_status import SYNCS_BEFORE_FAILING
from ingest.planning.facts import LOG

# Rows wait for columns of which the plan does not know yet, as while the shards of a
# table get one by one.
_WAITS = reduce(or_, (Q(status_reason__contains=stored_id(one)) for one in WAITED))
_STOPPED = Q(state__in=[PAUSED, FAILED]) | (
    Q(state__in=sorted(LOADED)) & (Q(failures__gte=SYNCS_BEFORE_FAILING) | _WAITS)
)


def give_up_laggards() -> int:
    """How many were given up: one of a source at most, for the next one may hold back
    nothing once the segments of this one are gone."""
    since = timezone.now() - timedelta(seconds=LEAST_WAITING_SECONDS)
    stopped = Pipeline.objects.filter(
        _STOPPED,
        capture=LOG,
        source_table__database__datasource=OuterRef("datasource"),
        lake_table__caught_up_at__lt=since,
    )
    is_large = Q(waiting_bytes__gte=LEAST_WAITING_BYTES)
    rows = SourceFollower.objects.filter(is_large | Exists(stopped))
    return sum(_give_up_oldest(row) for row in rows)


def _give_up_oldest(follower: SourceFollower) -> bool:
    with transaction.atomic():
        rows = _stopped(follower)
        waits = ((row, _waits_since(row, follower)) for row in rows)
        # one that needs nothing of what is kept frees nothing
        found = next(((row, since) for row, since in waits if since), None)
        pipeline, since = found or (next(iter(rows), None), None)
        if pipeline is None:
            return False
        why = _why_too_much(pipeline, follower, since)
        if why:
            transitions.lose_position(
                pipeline, reason=Sentence("%(why)s; resync it", why=why)
            )
    return bool(why)


def _why_too_much(
    pipeline: Pipeline, follower: SourceFollower, since: datetime | None
) -> str:
    policy = policy_of(pipeline)
    if follower.waiting_bytes > policy.max_waiting:
        return Sentence(
            "it was %(state)s while %(waiting_bytes)s bytes of its"
            " source's log came, more than the %(max_waiting)s that may"
            " wait for it (max_waiting_bytes)",
            state=_stands_as(pipeline),
            waiting_bytes=f"{follower.waiting_bytes:,}",
            max_waiting=f"{policy.max_waiting:,}",
        )
    most = timedelta(seconds=policy.max_waiting_seconds)
    if since is None or timezone.now() - since <= most:
        return ""
    return Sentence(
        "it was %(state)s and its source's log waits for it since"
        " %(since)s UTC, longer than it may (max_waiting_seconds)",
        state=_stands_as(pipeline),
        since=f"{since:%Y-%m-%d %H:%M}",
    )


def _stands_as(pipeline: Pipeline) -> Sentence:
    """With the reason, where the state alone says that it goes on."""
    if pipeline.state not in LOADED or not pipeline.status_reason:
        return Sentence(pipeline.state)
    return Sentence(
        "%(state)s (%(why)s)",
        state=Sentence(pipeline.state),
        why=as_sentence(pipeline.status_reason),
    )


def _waits_since(pipeline: Pipeline, follower: SourceFollower) -> datetime | None:
    """When the first of what is kept was committed, if the table is what it is kept
    for."""
    lake = settings.SLUICE_LAKE_URI
    folder = stream_folder(lake, stream_of(follower.datasource_id))
    table_id = pipeline.lake_table_id or 0
    segment = read_kept(folder, table_id, follower.first)
    if segment is None or table_id not in segment.tables:
        return None
    return datetime.fromtimestamp(segment.committed / 1e6, UTC)


def _stopped(follower: SourceFollower) -> list[Pipeline]:
    """Tables that may need what is kept, the one that has applied least first."""
    rows = (
        Pipeline.objects.filter(
            _STOPPED,
            capture=LOG,
            source_table__database__datasource=follower.datasource_id,
            lake_table__last_commit_epoch__lt=follower.first,
        )
        .select_related("lake_table", "source_table__database__datasource")
        .select_for_update(of=("self",))
        .order_by("lake_table__last_commit_epoch", "pk")
    )
    return [row for row in rows if not needed_resync.why_needed(row)]
