"""Tables that do not go on and hold back more of their source's log than they may.

Segments have rows of many tables, so the one that has applied least keeps all that came
since, in the lake. Beyond its `max_waiting_bytes` only a resync brings it on.
"""

from __future__ import annotations

from django.db import transaction
from django.db.models import Q

from ingest.models import Pipeline, SourceFollower
from ingest.models.states import FAILED, LOADED, PAUSED
from ingest.pipelines import needed_resync, transitions
from ingest.pipelines.policies.policy import LEAST_WAITING_BYTES
from ingest.pipelines.policies.store import policy_of
from ingest.pipelines.table_status import SYNCS_BEFORE_FAILING
from ingest.planning.facts import LOG

_STOPPED = Q(state__in=[PAUSED, FAILED]) | Q(
    state__in=sorted(LOADED), failures__gte=SYNCS_BEFORE_FAILING
)


def give_up_laggards() -> int:
    """How many were given up: one of a source at most, for the next one may hold back
    nothing once the segments of this one are gone."""
    rows = SourceFollower.objects.filter(waiting_bytes__gte=LEAST_WAITING_BYTES)
    return sum(_give_up_oldest(row) for row in rows)


def _give_up_oldest(follower: SourceFollower) -> bool:
    with transaction.atomic():
        pipeline = _oldest(follower)
        if pipeline is None:
            return False
        most = policy_of(pipeline).max_waiting
        if follower.waiting_bytes <= most:
            return False
        why = (
            f"it was {pipeline.state} while {follower.waiting_bytes:,} bytes of its"
            f" source's log came, more than the {most:,} that may wait for it"
            " (max_waiting_bytes); resync it"
        )
        transitions.lose_position(pipeline, reason=why)
    return True


def _oldest(follower: SourceFollower) -> Pipeline | None:
    """The stopped table that has applied least, if it needs what is kept."""
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
    return next((row for row in rows if not needed_resync.why_needed(row)), None)
