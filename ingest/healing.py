"""When a table's rows and its lake disagree, the lake is right: rows follow it.

That happens when a repair died between the lake's commit and the row, or when the
database was restored from a backup. It must not know how the lake came there.
"""

from __future__ import annotations

import logging

from django.conf import settings

from core.errors import SluiceError, TransientError
from ingest import outcomes
from ingest.hudi.identity import drift
from ingest.lake.commits import LakeState, read_lake_table
from ingest.lake.epochs import drop_older_seals, last_epoch
from ingest.models import TableOnboarding
from ingest.pinned import planned_identity, set_buckets

log = logging.getLogger(__name__)

# With these a driver refuses to write to a lake that the rows do not describe.
_DISAGREE = frozenset({"identity_drift", "lake_went_back"})


def healed(feed: TableOnboarding, error: SluiceError) -> SluiceError:
    """The error, or a transient one when rows follow the lake now: the next attempt
    is told the truth."""
    if error.code not in _DISAGREE or not (taken := follow_lake(feed)):
        return error
    return TransientError(f"{error.message}; {taken}", code=error.code)


def follow_lake(feed: TableOnboarding) -> str:
    """What the rows took over from the lake, in words; "" when they agreed, or when
    the lake cannot be read now: whoever writes next refuses and comes here again."""
    if feed.lake_table is None or not feed.lake_table.path:
        return ""
    try:
        state = read_lake_table(feed.lake_table.path)
        return "; ".join(filter(None, [_buckets(feed, state), _moment(feed, state)]))
    except SluiceError as error:
        log.warning("cannot compare %s with its lake", feed.lake_table, exc_info=error)
        return ""


def _buckets(feed: TableOnboarding, state: LakeState) -> str:
    """Every other difference is for people."""
    if state.position is None:
        return ""
    found, planned = state.position.identity, planned_identity(feed)
    if found.buckets == planned.buckets or len(drift(found, planned)) != 1:
        return ""
    why = f"the lake has {found.buckets} buckets where the plan said {planned.buckets}"
    set_buckets(feed, found.buckets, why=why)
    return f"{why}: the plan says so now"


def _moment(feed: TableOnboarding, state: LakeState) -> str:
    done = state.timeline.completed_writes
    assert feed.lake_table is not None
    feed.lake_table.refresh_from_db(fields=["last_commit_instant"])
    known = feed.lake_table.last_commit_instant
    if state.position is None or not done or not known:
        return ""
    newest = max(instant.asked for instant in done)
    if newest >= known:
        return ""
    facts = {
        "restored": newest,
        "instant": newest,
        "position": {"to": state.position.end},
        "epoch": state.position.epoch_to,
    }
    # what was captured behind it is captured again, in epochs of its own
    source = state.position.source
    last = last_epoch(settings.SLUICE_LAKE_URI, source)
    drop_older_seals(
        settings.SLUICE_LAKE_URI, source, feed.lake_table.pk, before=last + 1
    )
    outcomes.note_restored(feed, facts)
    return f"the lake went back to {newest}: capture goes on from there"
