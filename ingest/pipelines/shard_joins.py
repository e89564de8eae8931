"""Shards that come to a table whose others are followed: the plan has each of them from
the moment at which somebody wants it, marked as not read, until it was.

The mark stays whatever becomes of the job that reads them. A list that loses a shard
again would leave a gap in the stream that nothing tells.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from django.db import transaction

from catalog.access import audit
from catalog.models import Table
from core.errors import InvalidRequest
from core.models import Job
from core.sentences import Sentence
from ingest.contract.job import REPAIR, RepairWork
from ingest.contract.members import as_data
from ingest.contract.table import ShardSpec
from ingest.jobs.queue import new_job, put
from ingest.models import Onboarding, Pipeline, Shard
from ingest.models.states import LOADED, PAUSED
from ingest.pipelines import schema_diff, shards
from ingest.pipelines.followers import wake_followers
from ingest.planning.facts import LOG
from ingest.planning.plan import CreateTable, plan_from_json, plan_to_json
from ingest.planning.shards import MOST_SHARDS, ShardPattern, with_shards

# In others only a resync brings the table on, which reads all of them.
STATES = frozenset({*LOADED, PAUSED})
WORK = RepairWork("join")


@dataclass(frozen=True, slots=True)
class Joining:
    """What a job would read. new: those that the plan gets; unread: that it has."""

    new: tuple[Table, ...]
    unread: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        return [*self.unread, *map(shards.name_of, self.new)]


def unread(pipeline: Pipeline) -> tuple[ShardSpec, ...]:
    """Those that the plan has, and of which the lake lacks rows."""
    if not shards.is_sharded(pipeline):
        return ()
    return tuple(o for o in specs_of(pipeline) if o.is_unread and not o.gone)


def foresee(pipeline: Pipeline) -> Joining:
    """InvalidRequest `not_now`, `nothing_to_do`, or `invalid_shards` where one is not
    like the others."""
    if not shards.is_sharded(pipeline):
        raise InvalidRequest(
            Sentence("the table has the rows of one source table"),
            code="nothing_to_do",
        )
    if pipeline.state not in STATES:
        raise not_now(pipeline)
    there = [one.name for one in unread(pipeline)]
    new = shards.acceptable(pipeline)
    if not (there or new):
        raise InvalidRequest(
            "all tables of %(source)s that are known are read",
            source=plan_from_json(pipeline.plan).source,
            code="nothing_to_do",
            hint="discover the source first, if another one came",
        )
    return Joining(tuple(new), tuple(there))


def not_now(pipeline: Pipeline) -> InvalidRequest:
    return InvalidRequest(
        "%(table)s is %(state)s: no shard joins it now",
        table=pipeline.lake_table,
        state=Sentence(pipeline.state),
        code="not_now",
        hint="a resync reads all of its tables",
    )


def take_in(pipeline: Pipeline) -> None:
    """The plan has those that came, marked as not read. The row must be locked."""
    new = foresee(pipeline).new
    if not new:
        return
    plan = plan_from_json(pipeline.plan)
    pattern = ShardPattern.parse(plan.source)
    came = [replace(shards.spec_of(pattern, one), is_unread=True) for one in new]
    # one that was gone is read as if it had never been there
    names = {one.name for one in came}
    all_of_them = (*(o for o in specs_of(pipeline) if o.name not in names), *came)
    if len(all_of_them) > MOST_SHARDS:
        raise InvalidRequest(
            "%(count)s tables are more than the %(most)s that one lake table can have",
            count=f"{len(all_of_them):,}",
            most=f"{MOST_SHARDS:,}",
            code="invalid_shards",
            hint="exclude some of them",
        )
    Shard.objects.bulk_create(
        [Shard(pipeline=pipeline, source_table=table) for table in new], batch_size=500
    )
    store_specs(pipeline, all_of_them)


def note_read(pipeline: Pipeline, names: Collection[str], *, instant: str) -> None:
    """A commit has the rows of these; "" = they had none."""
    read = {one.name for one in unread(pipeline)} & {*names}
    if read:
        _mark(pipeline, read, is_unread=False, since=instant)


def note_gone_back(pipeline: Pipeline, *, to: str) -> list[str]:
    """The newest commit of the lake is this one: which shards it has no more."""
    there = specs_of(pipeline) if shards.is_sharded(pipeline) else ()
    gone = [one.name for one in there if one.since > to]
    if gone:
        _mark(pipeline, gone, is_unread=True, since="")
    return gone


def _mark(
    pipeline: Pipeline, names: Collection[str], *, is_unread: bool, since: str
) -> None:
    found = (
        replace(one, is_unread=is_unread, since=since) if one.name in names else one
        for one in specs_of(pipeline)
    )
    store_specs(pipeline, tuple(found))


def queue(pipeline: Pipeline, *, actor: str) -> Job | None:
    """The job that reads them, also one that waits already; None = a repair of another
    kind waits."""
    wanted = as_data(WORK)
    job = new_job(pipeline, REPAIR, actor=actor, payload={"repair": wanted})
    found = put([job])[0]
    return found if found.payload.get("repair") == wanted else None


def start_by_policy(pipeline: Pipeline, *, actor: str) -> None:
    """What came joins, as if the actor had asked for it."""
    with transaction.atomic():
        locked = Pipeline.objects.select_for_update().get(pk=pipeline.pk)
        pipeline.state, pipeline.plan = locked.state, locked.plan
        take_in(pipeline)
        if job := queue(pipeline, actor=actor):
            on = str(pipeline.lake_table)
            audit.record("table.join-shards", on=on, actor=actor, job=str(job.pk))


def look_again(pipeline: Pipeline) -> None:
    """Behind a resync that reads them no more: what came meanwhile did not join, as it
    was to read all. The next turn looks through what the source's last discovery saw,
    and lets join what the policy lets."""
    if shards.is_sharded(pipeline):
        rows = Onboarding.objects.filter(pk=pipeline.onboarding_id)
        rows.update(looked_at=None)


def specs_of(pipeline: Pipeline) -> tuple[ShardSpec, ...]:
    """Those of its plan."""
    create: CreateTable = plan_from_json(pipeline.plan).step(CreateTable)
    return create.shards


def store_specs(pipeline: Pipeline, all_of_them: Sequence[ShardSpec]) -> None:
    """The row must be locked."""
    plan = with_shards(plan_from_json(pipeline.plan), all_of_them)
    pipeline.plan = plan_to_json(plan)
    Pipeline.objects.filter(pk=pipeline.pk).update(plan=pipeline.plan)
    schema_diff.report_compared([pipeline])
    if pipeline.capture == LOG:
        wake_followers()
