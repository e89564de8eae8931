"""Shards of which there is no table at the source any more, while the others go on: the
plan has them from then on as gone, and the lake has their rows until a user decides.

Nothing is read of one that is gone. Where its rows are to go, the follower of the log
says so in the stream, and who applies that deletes them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from django.db import transaction

from catalog.access import audit
from catalog.discovery.store import VANISHED
from catalog.models import Table
from core.errors import InvalidRequest
from core.sentences import Sentence
from ingest.contract.table import Gone, ShardSpec
from ingest.models import Pipeline, Shard
from ingest.models.states import LOADED, PAUSED
from ingest.pipelines import shard_joins, shards
from ingest.pipelines.transitions import locked_pipeline, pipeline_of

# In others a resync is on its way or needed, which reads what there is.
STATES = frozenset({*LOADED, PAUSED})
_DECISIONS: dict[str, Gone] = {"keep": "kept", "delete": "deleted"}
_MOST_NAMES = 10


def undecided(pipeline: Pipeline) -> tuple[ShardSpec, ...]:
    return _of(pipeline, "undecided")


def _of(pipeline: Pipeline, *states: Gone) -> tuple[ShardSpec, ...]:
    if not shards.is_sharded(pipeline):
        return ()
    return tuple(o for o in shard_joins.specs_of(pipeline) if o.gone in states)


def with_rows(pipeline: Pipeline) -> tuple[ShardSpec, ...]:
    """Whose rows the lake has: a resync does not read them."""
    return _of(pipeline, "undecided", "kept")


def note_gone(pipeline: Pipeline, names: Collection[str]) -> None:
    """These have no table any more. The row must be locked. Of the last one that is
    left that is no matter of its own: there is no table then."""
    there = shard_joins.specs_of(pipeline)
    new = {one.name for one in there if one.name in names and not one.gone}
    if not new or all(one.gone or one.name in new for one in there):
        return
    tables = shards.tables_of(pipeline)
    gone = [table.pk for table in tables if shards.name_of(table) in new]
    Shard.objects.filter(pipeline=pipeline, source_table__in=gone).delete()
    # who looks through what came would take them for new ones
    Table.objects.filter(pk__in=gone).update(
        status=VANISHED,
        status_reason="it was dropped at the source, as the source's log is read",
    )
    if pipeline.source_table_id in gone:
        pipeline.source_table = next(one for one in tables if one.pk not in gone)
        Pipeline.objects.filter(pk=pipeline.pk).update(
            source_table=pipeline.source_table
        )
    specs = (replace(o, gone="undecided") if o.name in new else o for o in there)
    shard_joins.store_specs(pipeline, tuple(specs))


def decide(table: Table, *, actor: str, rows: str) -> Pipeline:
    """What becomes of the rows of those that wait for a decision: keep or delete."""
    with transaction.atomic():
        pipeline = locked_pipeline(table)
        names = {one.name for one in undecided(pipeline)}
        if not names:
            raise InvalidRequest(
                "no shard of %(table)s is gone at the source",
                table=table,
                code="nothing_to_do",
            )
        gone, there = _DECISIONS[rows], shard_joins.specs_of(pipeline)
        specs = (replace(o, gone=gone) if o.name in names else o for o in there)
        shard_joins.store_specs(pipeline, tuple(specs))
        audit.record(
            "table.leave-shards",
            on=str(table), actor=actor, rows=rows, shards=sorted(names),
        )  # fmt: skip
        return pipeline


def describe(table: Table) -> Iterator[str]:
    """What either decision means."""
    pipeline = pipeline_of(table.pk)
    names = [one.name for one in undecided(pipeline)] if pipeline else []
    more = ["…"] if len(names) > _MOST_NAMES else []
    yield Sentence(
        "Gone at the source, their rows are here still: %(names)s",
        names=", ".join([*names[:_MOST_NAMES], *more]),
    )
    yield Sentence(
        "If you keep their rows: they stay as they are, and no verification compares"
        " them, until a resync, which reads what is there"
    )
    yield Sentence(
        "If you delete them: one commit takes them away, as soon as the source's log"
        " goes on, and no other row"
    )
