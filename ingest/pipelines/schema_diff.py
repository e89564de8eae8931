"""How the columns of a source table differ from its plan, and the plan's way there.

The plan takes changes over when they are followed or approved, the catalogue when a
commit has brought them: until then readers see the columns that are in the lake. It
must not know how rows are read, nor how a table moves between its states.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from catalog.discovery.facts import schema_of
from catalog.discovery.store import VANISHED
from catalog.models import Column, SchemaVersion, Table
from catalog.schema.diff import SchemaChange
from catalog.schema.source_log import TableLog
from catalog.schema.types import TableSchema
from core import outbox
from core.errors import InvalidRequest, SluiceError
from core.outbox import NewEvent
from core.sentences import Sentence, joined
from ingest.contract.members import as_data
from ingest.models import Pipeline
from ingest.models.states import LOADED, LOADING, RESUMABLE, RETIRED
from ingest.pipelines import needed_resync, shards
from ingest.pipelines.policies.store import Policies, policy_of
from ingest.planning.drift import (
    NO_DRIFT,
    SchemaDrift,
    evolved,
    judge_drift,
    set_aside,
    taken_over,
)
from ingest.planning.facts import LOG
from ingest.planning.plan import (
    CreateTable,
    FollowLog,
    PlannedColumn,
    TablePlan,
    plan_from_json,
    plan_to_json,
    with_left_out,
)

APPROVE = "look at the change on the table's page and approve it there"
# What is known of a column that was followed: whether its older values were read.
PENDING, READ, PARTIAL = "pending", "read", "partial"
# And of one that a sync met: it cannot be followed before a discovery sees it, too.
UNSEEN = "unseen"
# And of one to which its log was read, and what that tells it gave to older rows: a
# discovery cannot see that where it comes behind another statement.
TOLD = "told"
_GOES_ON = LOADED | RESUMABLE


def is_dropped(pipeline: Pipeline) -> bool:
    """Whether the last discovery did not find its source table. Of shards some are
    there."""
    is_gone = pipeline.source_table.status == VANISHED
    return is_gone and not shards.is_sharded(pipeline)


def drift_of(
    pipeline: Pipeline,
    plan: TablePlan | None = None,
    *,
    policies: Policies | None = None,
) -> SchemaDrift:
    """What the last discovery saw at the source against the plan of an approved
    table. A table that vanished has no columns to compare. policies: those of its
    source, None = they are read."""
    if is_dropped(pipeline):
        return NO_DRIFT
    known = pipeline.plan.get("fingerprint", "")
    if known in {"", shards.source_side(pipeline).fingerprint}:
        return NO_DRIFT
    plan = plan or plan_from_json(pipeline.plan)
    if plan.step(CreateTable) is None:
        return NO_DRIFT
    drift = _judged(pipeline, plan, policies)
    if drift.is_open:
        drift = dataclasses.replace(drift, taken=_taken_over(pipeline, plan))
    if needed_resync.is_noted(pipeline):
        return dataclasses.replace(drift, needs_resync=True)
    return drift


def _taken_over(pipeline: Pipeline, plan: TablePlan) -> tuple[SchemaChange, ...]:
    table = pipeline.lake_table
    if table is None or not table.is_queryable:
        return ()
    return taken_over(plan, schema_of(table))


def report_compared(pipelines: Iterable[Pipeline]) -> None:
    """Append that these were compared with their source tables anew."""
    outbox.append(
        *(
            NewEvent(
                "source.compared", "pipeline", str(p.pk), {"table": p.lake_table_id}
            )
            for p in pipelines
        )
    )


def report_altered(tables: QuerySet[Table]) -> None:
    """Discovery found other columns in these source tables than before, or not the
    tables."""
    synced = Pipeline.objects.filter(shards.of_tables(tables)).exclude(lake_table=None)
    report_compared(synced.exclude(state=RETIRED).only("pk", "lake_table_id"))


def source_changed(
    pipeline: Pipeline, plan: TablePlan, *, policies: Policies | None = None
) -> SluiceError | None:
    """Why the source table is not what the plan was made for; None when it is, or when
    what changed there holds up nothing. A plan that is not approved yet was shown
    with columns, so for it every change counts."""
    if gone := shards.source_side(pipeline).gone:
        is_one = not shards.is_sharded(pipeline)
        return InvalidRequest(
            "%(source)s was dropped at the source after the plan was made",
            source=plan.source if is_one else gone[0],
            code="source_dropped",
            hint="remove the table here, or restore it at the source and discover again"
            if is_one
            else "resync the table, which goes on without it, or restore it and"
            " discover again",
        )
    if pipeline.lake_table_id is None:
        return _altered_before_approval(pipeline, plan)
    drift = drift_of(pipeline, plan, policies=policies)
    if not drift.blocking:
        return None
    return InvalidRequest(
        "%(source)s was altered at the source: %(blocking)s; nothing was written",
        source=plan.source,
        blocking=in_sentence(drift.blocking),
        code="source_altered",
        hint=drift.impossible or APPROVE,
    )


def _altered_before_approval(pipeline: Pipeline, plan: TablePlan) -> SluiceError | None:
    if plan.fingerprint in {"", shards.source_side(pipeline).fingerprint}:
        return None
    return InvalidRequest(
        "%(source)s was altered at the source after the plan was made;"
        " nothing was written",
        source=plan.source,
        code="source_altered",
        hint="remove this onboarding and ask for the table again: its new plan has"
        " the columns of now",
    )


def in_sentence(changes: Iterable[SchemaChange]) -> str:
    return joined(change.as_sentence for change in changes)


def describe(drift: SchemaDrift) -> str:
    """What waits for a decision, and what came along."""
    told = in_sentence(drift.to_approve)
    if not drift.along:
        return told
    return Sentence(
        "%(changes)s; followed already: %(followed)s",
        changes=told,
        followed=in_sentence(drift.along),
    )


# -------------------------------------------------------------------- the plan moves


def take_over(
    pipeline: Pipeline,
    changes: Sequence[SchemaChange],
    *,
    is_followed: bool,
    aside: Sequence[SchemaChange] = (),
) -> None:
    """The plan has these changes from now on; the next job reads and writes by it.

    is_followed  the table goes on from its position, so values that an added column
                 got below that have to be read by a sync of their own
    aside        of columns that are not read any more
    """
    names = {change.column for change in aside}
    plan = plan_from_json(pipeline.plan)
    kind = pipeline.source_table.database.datasource.kind
    source = _source_of(pipeline, plan)
    plan = evolved(plan, source.schema, changes, kind=kind, log=source.log)
    plan = set_aside(plan, source.schema, names)
    pipeline.plan = plan_to_json(plan)
    pipeline.drift = {k: v for k, v in pipeline.drift.items() if k not in names}
    _forget_told(pipeline, {change.column for change in changes})
    if is_followed and pipeline.capture != LOG:
        at = timezone.now().isoformat()
        added = [c.column for c in changes if c.kind == "added"]
        _note(pipeline, {name: {"state": PENDING, "at": at} for name in added})
    elif not is_followed:
        needed_resync.note_needed(pipeline, [*changes, *aside])
    left = _judged(pipeline, plan)
    if not (left.is_open or left.left_out or source.unread):
        pipeline.plan["fingerprint"] = shards.source_side(pipeline).fingerprint
    Pipeline.objects.filter(pk=pipeline.pk).update(
        plan=pipeline.plan, drift=pipeline.drift
    )


def note_left_out(pipeline: Pipeline) -> None:
    """Which of the columns that the catalogue has now are not carried: of a table that
    follows a log no row waits for a decision about those."""
    plan = plan_from_json(pipeline.plan)
    now = with_left_out(plan, _source_of(pipeline, plan).schema)
    if now.left_out != plan.left_out:
        pipeline.plan = {**pipeline.plan, "left_out": [*now.left_out]}
        _forget_told(pipeline, now.left_out)
        Pipeline.objects.filter(pk=pipeline.pk).update(
            plan=pipeline.plan, drift=pipeline.drift
        )


def _forget_told(pipeline: Pipeline, names: Collection[str]) -> None:
    """Of columns that the plan has now, or that only a load brings."""
    pipeline.drift = {
        name: note
        for name, note in pipeline.drift.items()
        if name not in names or note["state"] != TOLD
    }


def _judged(
    pipeline: Pipeline, plan: TablePlan, policies: Policies | None = None
) -> SchemaDrift:
    policy = policies.of_pipeline(pipeline) if policies else policy_of(pipeline)
    source = _source_of(pipeline, plan)
    log = source.log
    if pipeline.state not in LOADING:
        # rows of the log went on without these: only a fresh copy has their values
        log = dataclasses.replace(log, untold=(*log.untold, *plan.left_out))
    return judge_drift(plan, source.schema, policy.schema_changes, log)


@dataclass(frozen=True, slots=True)
class _Source:
    """What a plan is held against. unread: columns that are not in `schema` yet, as the
    table's log was not read to them."""

    schema: TableSchema
    log: TableLog
    unread: frozenset[str]


def _source_of(pipeline: Pipeline, plan: TablePlan) -> _Source:
    side = shards.source_side(pipeline)
    log, columns = _told_of(pipeline, side.log), side.schema.columns
    unread = frozenset[str]()
    create = plan.step(CreateTable)
    is_followed = create is not None and plan.step(FollowLog) is not None
    if is_followed and log.older_by_log and pipeline.state in _GOES_ON:
        told = [n for n, note in pipeline.drift.items() if note["state"] == TOLD]
        carried = (column.source_name for column in create.columns)
        known = {*carried, *plan.left_out, *plan.excluded, *told}
        unread = frozenset(c.source_name for c in columns) - known
    there = tuple(c for c in columns if c.source_name not in unread)
    return _Source(TableSchema(there), log, unread)


def waits_for_log(pipeline: Pipeline) -> bool:
    """Whether the source has columns to which the table's log was not read yet."""
    return bool(_source_of(pipeline, plan_from_json(pipeline.plan)).unread)


def _told_of(pipeline: Pipeline, log: TableLog) -> TableLog:
    notes = pipeline.drift.items()
    told = {
        n: note["older"]
        for n, note in notes
        if note["state"] == TOLD and "older" in note
    }
    values = {n: v for n, v in {**log.older, **told}.items() if v is not None}
    untold = tuple(name for name in log.untold if name not in told)
    return dataclasses.replace(log, older=values, untold=untold)


def note_told(
    pipeline: Pipeline, columns: Collection[str], older: Mapping[str, str | None]
) -> None:
    """A source's log was read to these columns. older: what it tells of them that they
    gave to rows that were there. The row must be locked."""
    create: CreateTable = plan_from_json(pipeline.plan).step(CreateTable)
    new = {*columns} - {column.source_name for column in create.columns}
    told = {n: {"older": older[n]} if n in older else {} for n in new}
    _note(pipeline, {n: {"state": TOLD, **note} for n, note in told.items()})
    Pipeline.objects.filter(pk=pipeline.pk).update(drift=pipeline.drift)


def _note(pipeline: Pipeline, columns: Mapping[str, Mapping[str, str | None]]) -> None:
    pipeline.drift = {**pipeline.drift, **columns}


def leave_out(pipeline: Pipeline) -> str:
    """What the plan leaves out from now on, in words; "" when that is nothing."""
    gone = to_leave_out(pipeline)
    if not gone:
        return ""
    take_over(pipeline, drift_of(pipeline).blocking, is_followed=False)
    return in_words(gone)


def in_words(gone: Sequence[str]) -> str:
    names = ", ".join(gone)
    return Sentence(
        "gone at the source, so the fresh copy has them no more: %(names)s", names=names
    )


def to_leave_out(pipeline: Pipeline, *, policies: Policies | None = None) -> list[str]:
    """Columns that the next re-sync leaves out; none when nothing is gone, or when
    more than that has changed: the load is refused then until it is approved."""
    drift = drift_of(pipeline, policies=policies)
    is_only_gone = all(change.kind == "removed" for change in drift.blocking)
    if not is_only_gone or drift.impossible:
        return []
    return [change.column for change in drift.blocking]


# --------------------------------------------------------- values of followed columns


def pending_columns(pipeline: Pipeline) -> tuple[str, ...]:
    """Followed columns whose values below the table's position are to be read."""
    return tuple(n for n, note in pipeline.drift.items() if note["state"] == PENDING)


def partial_columns(pipeline: Pipeline) -> dict[str, str]:
    """Followed columns that are NULL in older rows of the lake, with the position from
    which on they count."""
    found = pipeline.drift.items()
    return {n: note["from"] for n, note in found if note["state"] == PARTIAL}


def describe_earlier(partial: Mapping[str, str]) -> str:
    """Of `partial_columns`; "" when there are none."""
    return joined(
        Sentence(
            "column %(name)s counts from %(start)s: rows from before that"
            " have NULL there in the lake until a resync",
            name=name,
            start=start,
        )
        for name, start in partial.items()
    )


def note_earlier(pipeline: Pipeline, found: Mapping[str, Any]) -> None:
    """What a sync did about older values, as its report says: `columns`, `earlier`
    ("none", "read", "many" or "unknown"), `from`; "unread" = its report is lost, and
    the next one looks."""
    states = {"none": READ, "read": READ, "unread": PENDING}
    state = states.get(found["earlier"], PARTIAL)
    start = str(found.get("from") or "")
    # one that the lake only lacked was noted by nobody
    known = [n for n in found["columns"] if n in pipeline.drift or state != READ]
    noted = {"state": state, "from": start}
    _note(pipeline, {n: {**pipeline.drift.get(n, {}), **noted} for n in known})
    Pipeline.objects.filter(pk=pipeline.pk).update(drift=pipeline.drift)


def note_unseen(pipeline: Pipeline, names: Iterable[str]) -> None:
    """A sync met these source columns, which the catalogue does not have."""
    _note(
        pipeline,
        {name: {"state": UNSEEN} for name in names if name not in pipeline.drift},
    )
    Pipeline.objects.filter(pk=pipeline.pk).update(drift=pipeline.drift)


def unseen_columns(pipeline: Pipeline) -> tuple[str, ...]:
    return tuple(n for n, note in pipeline.drift.items() if note["state"] == UNSEEN)


def note_loaded(pipeline: Pipeline, columns: Iterable[str]) -> None:
    """A load brought every value of these source columns; what is noted of columns
    that the plan left meanwhile is over."""
    create: CreateTable = plan_from_json(pipeline.plan).step(CreateTable)
    left = {c.source_name for c in create.columns} - set(columns)
    left.add(needed_resync.TABLE)
    pipeline.drift = {k: v for k, v in pipeline.drift.items() if k in left}
    Pipeline.objects.filter(pk=pipeline.pk).update(drift=pipeline.drift)


def note_gone_back(pipeline: Pipeline) -> None:
    """The lake is as it was earlier: what was read for followed columns may be gone."""
    pipeline.drift = {
        k: {**v, "state": PENDING} if v["state"] in {READ, PARTIAL} else v
        for k, v in pipeline.drift.items()
    }
    Pipeline.objects.filter(pk=pipeline.pk).update(drift=pipeline.drift)


# ------------------------------------------------------------------- the catalogue


def show_columns(pipeline: Pipeline, committed: Sequence[Mapping[str, Any]]) -> None:
    """The catalogue shows the columns that a job has committed, as its spec had them.

    Engines read the table anew when they see another version, so it must not be there
    before the commit. A plan that has moved on since is shown by a later job.
    """
    create: CreateTable = plan_from_json(pipeline.plan).step(CreateTable)
    planned = {c.source_name: c for c in create.columns}
    if any(not _is_planned(column, planned) for column in committed):
        return
    wanted = [planned[str(column["source_name"])] for column in committed]
    wanted += create.kept
    if _are_shown(pipeline.lake, wanted):
        # as after nearly every sync: that takes no lock
        return
    with transaction.atomic():
        table = Table.objects.select_for_update().get(pk=pipeline.lake.pk)
        if not _write_columns(table, wanted):
            return
        table.schema_version += 1
        table.save(update_fields=["schema_version"])
        SchemaVersion.objects.create(
            table=table,
            version=table.schema_version,
            columns=as_data(wanted),
        )
        Pipeline.objects.filter(pk=pipeline.pk).update(is_recorded=False)


def _is_planned(
    column: Mapping[str, Any], planned: Mapping[str, PlannedColumn]
) -> bool:
    same = planned.get(str(column["source_name"]))
    return same is not None and same.type == column["type"]


_SHOWN = ("name", "source_name", "source_type", "type", "nullable", "key")


def _shown(column: PlannedColumn) -> dict[str, Any]:
    return {name: getattr(column, name) for name in _SHOWN}


def column_rows(table: Table, columns: Sequence[PlannedColumn]) -> list[Column]:
    """Those of a lake table's plan, not stored yet."""
    return [
        Column(table=table, position=position, **_shown(column))
        for position, column in enumerate(columns, start=1)
    ]


def _are_shown(table: Table, wanted: Sequence[PlannedColumn]) -> bool:
    rows = Column.objects.filter(table=table).values(*_SHOWN)
    shown = {row["name"]: row for row in rows}
    return shown == {column.name: _shown(column) for column in wanted}


def _write_columns(table: Table, wanted: Sequence[PlannedColumn]) -> bool:
    """Whether any row changed."""
    rows = {row.name: row for row in Column.objects.filter(table=table)}
    last = max((row.position for row in rows.values()), default=0)
    former = rows.keys() - {column.name for column in wanted}
    Column.objects.filter(table=table, name__in=former).delete()
    altered = bool(former)
    for column in wanted:
        facts = _shown(column)
        row = rows.get(column.name)
        if row is None:
            last += 1
            Column.objects.create(table=table, position=last, **facts)
        elif any(getattr(row, name) != value for name, value in facts.items()):
            Column.objects.filter(pk=row.pk).update(**facts)
        else:
            continue
        altered = True
    return altered
