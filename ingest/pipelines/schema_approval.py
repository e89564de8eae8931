"""A user approves what changed at the source: the plan takes it over, but for columns
that are set aside, and the table goes on by a sync where that can bring it, else by a
re-sync."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.fields.json import KeyTextTransform

from catalog.access import audit
from catalog.models import Table
from catalog.schema.diff import SchemaChange
from core.errors import InvalidRequest, SluiceError
from core.jobs import ACTIVE
from core.models import Job
from core.sentences import Sentence, joined
from ingest.contract.job import LOADS
from ingest.models import Pipeline
from ingest.models.states import FAILED, LOADED, NEEDS_RESYNC, PAUSED, REMOVING, RETIRED
from ingest.pipelines import (
    needed_resync,
    replaced,
    schema_diff,
    shards,
    table_commands,
)
from ingest.pipelines.policies.store import Policies
from ingest.pipelines.schema_diff import drift_of, in_sentence
from ingest.pipelines.shard_matters import ShardMatter, matters_of
from ingest.pipelines.sync_job import start_sync
from ingest.pipelines.transitions import locked_pipeline, move, pipeline_of
from ingest.planning.drift import Aside, SchemaDrift
from ingest.planning.facts import LOG, TIMESTAMP
from ingest.planning.plan import CreateTable, plan_from_json

MOST_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class SchemaProposal:
    """What changed at the source of a table, and what approving it does.

    diff     all that differs, also what is followed or left out
    changes  what waits for a decision, then what came along; () = nothing waits
    will     what happens then, in order
    choices  source name → how that column can be set aside instead
    is_possible  False: only another lake table can take it, `will` says how
    left_out columns that are not synced, recorded only
    kept     those that the lake table has, and that are not read any more
    partial_columns  those whose older rows are NULL in the lake, in words; "" = none
    resync_needed    why a re-sync is needed that no load has brought; "" = it is not
    replaced what took the place of the source table and is not verified yet, in words
    shards   what is to be told of the source tables of a sharded table
    """

    diff: tuple[SchemaChange, ...] = ()
    changes: tuple[str, ...] = ()
    will: tuple[str, ...] = ()
    choices: Mapping[str, Aside] = field(default_factory=dict)
    is_possible: bool = True
    needs_resync: bool = False
    left_out: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    partial_columns: str = ""
    resync_needed: str = ""
    replaced: str = ""
    shards: tuple[ShardMatter, ...] = ()


def proposal_of(table: Table) -> SchemaProposal:
    """Empty for a table that follows its source, or that is not synced any more."""
    pipeline = pipeline_of(table.pk)
    if pipeline is None:
        return SchemaProposal()
    return replace(_proposal(pipeline), shards=tuple(matters_of(pipeline)))


def _proposal(pipeline: Pipeline, policies: Policies | None = None) -> SchemaProposal:
    drift = drift_of(pipeline, policies=policies)
    partial = schema_diff.partial_columns(pipeline)
    return SchemaProposal(
        diff=(*drift.to_approve, *drift.along, *drift.left_out),
        changes=_in_sentences(drift),
        will=_what_happens(drift, pipeline) if drift.is_open else (),
        choices=drift.aside,
        is_possible=not drift.impossible,
        needs_resync=drift.needs_resync,
        left_out=(*(change.column for change in drift.left_out), *_excluded(pipeline)),
        kept=tuple(column.name for column in _create_of(pipeline).kept),
        partial_columns=schema_diff.describe_earlier(partial),
        resync_needed=needed_resync.why_needed(pipeline),
        replaced=replaced.described(pipeline),
    )


def _in_sentences(drift: SchemaDrift) -> tuple[str, ...]:
    if not drift.is_open:
        return ()
    return tuple(one.as_sentence for one in (*drift.to_approve, *drift.along))


def _create_of(pipeline: Pipeline) -> CreateTable:
    found: CreateTable | None = plan_from_json(pipeline.plan).step(CreateTable)
    assert found is not None, "it has a lake table"
    return found


def _excluded(pipeline: Pipeline) -> tuple[str, ...]:
    names = set(plan_from_json(pipeline.plan).excluded)
    read = {column.source_name for column in _create_of(pipeline).columns}
    there = [c.source_name for c in shards.source_side(pipeline).schema.columns]
    return tuple(name for name in there if name in names - read)


@dataclass(frozen=True, slots=True)
class _Decision:
    """drift: what is taken over. aside: the changes of columns that are set aside."""

    drift: SchemaDrift
    aside: tuple[SchemaChange, ...] = ()


def _decide(
    pipeline: Pipeline,
    table: Table,
    keep_null: Sequence[str] = (),
    leave_out: Sequence[str] = (),
) -> _Decision:
    """InvalidRequest where nothing waits, or a column cannot be set aside that way."""
    drift = drift_of(pipeline)
    _refuse(table, drift)
    wanted: dict[str, Aside] = dict.fromkeys(keep_null, "keep_null")
    wanted |= dict.fromkeys(leave_out, "leave_out")
    _refuse_choices(table, drift, wanted)
    if not wanted:
        return _Decision(drift)
    aside = tuple(change for change in drift.to_approve if change.column in wanted)
    left = drift.without(wanted)
    # what its reader stopped at is not in the stream
    is_lost = pipeline.state == NEEDS_RESYNC
    if is_lost or needed_resync.is_noted(pipeline, without=aside):
        left = replace(left, needs_resync=True)
    return _Decision(left, aside)


def _refuse_choices(
    table: Table, drift: SchemaDrift, wanted: Mapping[str, Aside]
) -> None:
    others = sorted(n for n, how in wanted.items() if drift.aside.get(n) != how)
    if not others:
        return
    offered = "; ".join(f"{how}: {name}" for name, how in sorted(drift.aside.items()))
    raise InvalidRequest(
        "of %(table)s this cannot be chosen for %(others)s",
        choices=offered or Sentence("nothing"),
        table=table,
        others=", ".join(others),
        code="choice_not_offered",
        hint="what can be chosen now: %(choices)s. A key, and what the lake table"
        " is partitioned or followed by, is followed only",
    )


def what_happens(
    table: Table, *, keep_null: Sequence[str] = (), leave_out: Sequence[str] = ()
) -> tuple[str, ...]:
    """What approving with these choices does, in sentences. InvalidRequest as
    `approve_schema_change`."""
    pipeline = pipeline_of(table.pk) or locked_pipeline(table)
    decision = _decide(pipeline, table, keep_null, leave_out)
    return _what_happens(decision.drift, pipeline, decision.aside)


def _set_aside_in_words(
    aside: Sequence[SchemaChange], *, is_read_again: bool
) -> Iterator[str]:
    for change in aside:
        if change.kind == "added":
            text = _LEFT_OUT
        else:
            text = _NULL_IN_ALL if is_read_again else _NULL_FROM_NOW_ON
        yield Sentence(text, name=change.column)


_LEFT_OUT = "Column %(name)s is left out of the lake table"
_NULL_IN_ALL = (
    "Column %(name)s stays in the lake table, without its values: NULL in every row"
)
_NULL_FROM_NOW_ON = (
    "Column %(name)s stays in the lake table with its values; rows that change from now"
    " on have NULL there, and after a resync all have"
)
_READ_AGAIN = (
    "The whole table is read from the source again, and one commit replaces what is"
    " there: readers see the old rows or the new ones, never a mixture"
)


def _what_happens(
    drift: SchemaDrift, pipeline: Pipeline, aside: Sequence[SchemaChange] = ()
) -> tuple[str, ...]:
    if drift.impossible:
        return (drift.impossible,)
    taken = [] if not drift.to_approve else [_taken_over(drift)]
    taken += _set_aside_in_words(aside, is_read_again=drift.needs_resync)
    if not drift.needs_resync:
        return *taken, _without_reading(drift, pipeline)
    gone = (
        Sentence("Column %(name)s and its values leave the lake table", name=one.column)
        for one in drift.blocking
        if one.kind == "removed"
    )
    return *taken, _READ_AGAIN, *gone, *_of_another_key(drift, pipeline)


def _taken_over(drift: SchemaDrift) -> str:
    over = Sentence(
        "The lake table takes over: %(changes)s", changes=in_sentence(drift.to_approve)
    )
    if not drift.along:
        return over
    along = Sentence(
        "with it, what is followed automatically: %(changes)s",
        changes=in_sentence(drift.along),
    )
    return joined([over, along])


def _without_reading(drift: SchemaDrift, pipeline: Pipeline) -> str:
    if pipeline.capture == LOG:
        return "What waits of the source's log is applied with it"
    if not drift.to_approve:
        return "Nothing is read again"
    return "A sync brings it, with rows that got values of new columns before"


def _of_another_key(drift: SchemaDrift, pipeline: Pipeline) -> tuple[str, ...]:
    """The lake's key is fixed for its life, whatever the source's is."""
    create = _create_of(pipeline)
    if create.row_hash or all(change.kind != "key" for change in drift.blocking):
        return ()
    keyed = Sentence(
        "The lake table stays keyed by %(key)s: a load that finds a key twice is "
        "refused; where no index of the source begins with %(key)s, later syncs look "
        "for repeated keys among the changed rows only, and warn",
        key=", ".join(create.record_key),
    )
    return (keyed,)


def approve_schema_change(
    table: Table,
    *,
    actor: str,
    keep_null: Sequence[str] = (),
    leave_out: Sequence[str] = (),
) -> Job:
    """The job that brings it. keep_null, leave_out: columns that are set aside, by
    their names at the source.

    InvalidRequest when there is nothing to approve, when the lake table cannot take it,
    for a choice that is not offered, or while a load runs.
    """
    with transaction.atomic():
        pipeline = locked_pipeline(table)
        decision = _decide(pipeline, table, keep_null, leave_out)
        drift = decision.drift
        needed_resync.forget(pipeline, decision.aside)
        schema_diff.take_over(
            pipeline,
            drift.to_approve,
            is_followed=not drift.needs_resync,
            aside=decision.aside,
        )
        job = _go_on(pipeline, table, drift, actor=actor)
        schema_diff.report_compared([pipeline])
        said = [str(change) for change in drift.to_approve]
        said += [f"set aside: {change}" for change in decision.aside]
        audit.record(
            "table.approve_schema_change",
            on=str(table),
            actor=actor,
            job=str(job.pk),
            changes=said,
        )
        return job


def _refuse(table: Table, drift: SchemaDrift) -> None:
    if not drift.is_open:
        raise InvalidRequest(
            "%(table)s waits for no decision about its columns",
            table=table,
            code="nothing_to_approve",
            hint="discover the source again when it changed since",
        )
    if drift.impossible:
        raise InvalidRequest(
            "%(table)s cannot take over: %(changes)s",
            table=table,
            changes=in_sentence(drift.to_approve),
            code="cannot_take_over",
            hint=drift.impossible,
        )


def _go_on(pipeline: Pipeline, table: Table, drift: SchemaDrift, *, actor: str) -> Job:
    is_stopped = pipeline.state in {PAUSED, FAILED}
    if is_stopped and (not table.is_queryable or not drift.needs_resync):
        return table_commands.retry_pipeline(pipeline, actor=actor)
    if not drift.needs_resync:
        if pipeline.state not in {*LOADED, NEEDS_RESYNC}:
            raise _busy(pipeline, table)
        if pipeline.capture != TIMESTAMP or pipeline.state == NEEDS_RESYNC:
            return table_commands.last_job(pipeline)
        return start_sync(pipeline, actor=actor)
    loads = Job.objects.filter(subject_id=str(table.pk), kind__in=LOADS)
    if loads.filter(state__in=ACTIVE).exists():
        raise _busy(pipeline, table)  # it may have read the values of before
    if pipeline.state == PAUSED:
        if pipeline.resume_event == "resume_resync":
            return table_commands.retry_pipeline(pipeline, actor=actor)
        move(pipeline, "resume_catch_up", actor=actor, resume_event="")
    if pipeline.state not in {*LOADED, NEEDS_RESYNC, FAILED}:
        raise _busy(pipeline, table)
    return table_commands.load_again(pipeline, table, actor=actor)


def _busy(pipeline: Pipeline, table: Table) -> InvalidRequest:
    return InvalidRequest(
        "%(table)s is %(state)s: its columns do not change under a running load",
        table=table,
        state=Sentence(pipeline.state),
        code="not_now",
        hint="approve when the load has ended, or cancel it first",
        facts={"state": pipeline.state},
    )


# --------------------------------------------------------------------- many at once


@dataclass(frozen=True, slots=True)
class Undecided:
    table: Table
    proposal: SchemaProposal


@dataclass(frozen=True, slots=True)
class Decided:
    """What approving came to for one of several tables: its job, or why not."""

    table: Table
    job: Job | None = None
    error: SluiceError | None = None


def undecided(tables: QuerySet[Table]) -> list[Undecided]:
    """Those that wait for a decision about their columns, at most MOST_AT_ONCE, by
    name. A few statements for each hundred that differ from their plans."""
    known = KeyTextTransform("fingerprint", "plan")
    rows = (
        Pipeline.objects.filter(lake_table__in=tables.order_by().values("pk"))
        .annotate(known=known)
        # whether a shard has other columns is seen by looking at all of them
        .exclude(known=F("source_table__schema_fingerprint"), shards=None)
        .exclude(state__in=[REMOVING, RETIRED])
        .select_related(
            "lake_table__database__datasource", "source_table__database__datasource"
        )
        .order_by("lake_table__database__name", "lake_table__name")
    )
    source = "source_table__database__datasource"
    sources = set(rows.order_by().values_list(source, flat=True).distinct())
    if not sources:
        return []
    policies = Policies(sources)
    found = []
    differing = rows.prefetch_related("source_table__columns", "lake_table__columns")
    for row in differing.iterator(chunk_size=100):
        proposal = _proposal(row, policies)
        if proposal.changes:
            found.append(Undecided(row.lake, proposal))
        if len(found) == MOST_AT_ONCE:
            break
    return found


def approve_many(
    tables: Iterable[Table], *, actor: str, set_aside: Collection[Aside]
) -> list[Decided]:
    """Each by itself: one that is refused stays as it is. set_aside: what is chosen for
    every column for which it can be."""
    return [_decided(table, actor=actor, ways=set_aside) for table in tables]


def _decided(table: Table, *, actor: str, ways: Collection[Aside]) -> Decided:
    offered = proposal_of(table).choices.items()
    chosen = {way: [name for name, how in offered if how == way] for way in ways}
    try:
        return Decided(table, approve_schema_change(table, actor=actor, **chosen))
    except SluiceError as error:
        return Decided(table, error=error)
