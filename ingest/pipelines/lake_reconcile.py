"""When a table's rows and its lake disagree, the lake is right: rows follow it.

That happens when a repair died between the lake's commit and the row, or when the
database was restored from a backup. It must not know how the lake came there.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from django.db.models.functions import Now
from django.utils import timezone

from core.errors import SluiceError, TransientError
from core.sentences import Sentence, joined
from ingest.contract.source_positions import is_of_log
from ingest.lake.commits import LakeState, read_lake_table
from ingest.lake.hudi.identity import drift
from ingest.lake.hudi.options import CommitPosition
from ingest.models import Pipeline, states
from ingest.pipelines import schema_diff, shard_joins, transitions
from ingest.pipelines.lake_identity import planned_identity, set_buckets
from ingest.planning.facts import LOG, TIMESTAMP

log = logging.getLogger(__name__)

# With these a driver refuses to write to a lake that the rows do not describe.
_DISAGREE = frozenset({"identity_drift", "lake_went_back"})


def healed(pipeline: Pipeline, error: SluiceError) -> SluiceError:
    """The error, or a transient one when rows follow the lake now: the next attempt
    is told the truth."""
    if error.code not in _DISAGREE:
        return error
    if not (taken := follow_lake(pipeline)):
        return error
    return TransientError(joined([error.message, taken]), code=error.code)


def follow_lake(pipeline: Pipeline) -> str:
    """What the rows took over from the lake, in words; "" when they agreed, or when
    the lake cannot be read now: the next writer refuses and comes here again."""
    if pipeline.lake_table is None or not pipeline.lake_table.path:
        return ""
    try:
        state = read_lake_table(pipeline.lake_table.path)
        return "; ".join(
            filter(
                None,
                [
                    _buckets(pipeline, state),
                    _moment(pipeline, state),
                    _shards(pipeline, state),
                ],
            )
        )
    except SluiceError as error:
        log.warning(
            "cannot compare %s with its lake", pipeline.lake_table, exc_info=error
        )
        return ""


def note_restored(pipeline: Pipeline, facts: Mapping[str, Any]) -> None:
    """The table is at an older position again: capture goes on from there."""
    position = str(facts["position"]["to"])
    transitions.set_columns(pipeline, position=position)
    schema_diff.note_gone_back(pipeline)
    shard_joins.note_gone_back(pipeline, to=str(facts["restored"]))
    reason = Sentence(
        "restored to savepoint %(at)s; it catches up from there",
        at=facts["restored"],
    )
    if pipeline.capture == TIMESTAMP and is_of_log(position):
        told = Sentence(
            "restored to savepoint %(at)s, of when it followed its source's log: from"
            " where its cursor goes on is not known",
            at=facts["restored"],
        )
        transitions.lose_position(pipeline, reason=told)
    elif facts.get("reaches_back") is False:
        told = Sentence(
            "restored to savepoint %(at)s. %(misses)s",
            at=facts["restored"],
            misses=facts["misses"][0],
        )
        transitions.lose_position(pipeline, reason=told)
    elif pipeline.capture == "snapshot":
        transitions.say(
            pipeline,
            Sentence("restored to savepoint %(at)s", at=facts["restored"]),
        )
    elif pipeline.state == states.LIVE:
        due = None if pipeline.capture == LOG else timezone.now()
        transitions.move(pipeline, "fall_behind", reason=reason, due_at=due)
    else:
        transitions.say(pipeline, reason)
    transitions.show(
        pipeline,
        caught_up_at=None,
        **transitions.commit_columns(
            facts, position=position, epoch=facts.get("epoch")
        ),
    )


def _buckets(pipeline: Pipeline, state: LakeState) -> str:
    """Every other difference is for people."""
    if state.position is None:
        return ""
    found, planned = state.position.identity, planned_identity(pipeline)
    if found.buckets == planned.buckets or len(drift(found, planned)) != 1:
        return ""
    why = Sentence(
        "the lake has %(found)s buckets where the plan had %(planned)s",
        found=found.buckets,
        planned=planned.buckets,
    )
    set_buckets(pipeline, found.buckets, why=why)
    return Sentence("%(why)s: the plan says so now", why=why)


def _shards(pipeline: Pipeline, state: LakeState) -> str:
    """A shard joins at the position where the table is, so no epoch tells."""
    if not state.timeline.completed_writes:
        return ""
    gone = shard_joins.note_gone_back(pipeline, to=_written(state))
    if not gone:
        return ""
    return Sentence(
        "the lake lacks the rows of %(shards)s, which had joined",
        shards=", ".join(gone),
    )


def _moment(pipeline: Pipeline, state: LakeState) -> str:
    """By epochs: a compaction of older rows has a newer instant than the rows know."""
    position, table = state.position, pipeline.lake
    table.refresh_from_db(fields=["last_commit_epoch"])
    source = pipeline.source_table.database.datasource_id
    if position is None or position.source != source:
        return ""
    known = table.last_commit_epoch or 0
    if pipeline.capture == LOG and position.epoch_to > known:
        _take_newest(pipeline, state, position)
        return "the lake had newer commits: they are shown now"
    if position.epoch_to >= known:
        return ""
    at = _written(state)
    facts = {
        "restored": at,
        "instant": at,
        "position": {"to": position.end},
        "epoch": position.epoch_to,
    }
    note_restored(pipeline, facts)
    return Sentence("the lake went back to %(at)s: capture goes on from there", at=at)


def _written(state: LakeState) -> str:
    """The instant of the rows' position."""
    if state.newest_write:
        return state.newest_write.instant.asked
    return max(i.asked for i in state.timeline.completed_writes)


def _take_newest(
    pipeline: Pipeline, state: LakeState, position: CommitPosition
) -> None:
    """Of a table that follows its log."""
    end = position.end
    Pipeline.objects.filter(pk=pipeline.pk).update(position=end)
    pipeline.position = end
    transitions.show(
        pipeline,
        last_commit_instant=_written(state),
        last_commit_position={"to": end},
        last_commit_epoch=position.epoch_to,
        last_commit_at=Now(),
    )
