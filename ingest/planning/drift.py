"""What changed columns of a source table mean for the plan of its lake table. Pure.

A change is followed (the next sync takes it over), proposed (the columns known so far
go on being synced until it is approved), blocking (nothing is read until it is
approved), or left out. Nothing is followed of which a value could be lost or read
otherwise.

Who decides may set a column aside instead: it is not read from then on, and what the
lake table has of it stays.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from catalog.schema.diff import SchemaChange, diff
from catalog.schema.naming import lake_columns
from catalog.schema.source_log import TableLog
from catalog.schema.types import Column, TableSchema
from catalog.schema.widening import keeps_values, widens_in_place
from catalog.sources.registry import proposed_choice
from core.sentences import Sentence
from ingest.contract.table import SHARD
from ingest.planning.as_text import as_text
from ingest.planning.plan import (
    ApplyChanges,
    CreateTable,
    FollowLog,
    PlannedColumn,
    TablePlan,
    with_left_out,
)

SchemaPolicy = Literal["follow", "ask", "ignore"]
SCHEMA_POLICIES: tuple[SchemaPolicy, ...] = ("follow", "ask", "ignore")
_Verdict = Literal["followed", "proposed", "blocking", "left_out"]
# Of a column that is gone at the source; of one that is new or another there.
Aside = Literal["keep_null", "leave_out"]
NO_LOG = TableLog()
_FOLLOWED = frozenset({"added", "widened"})


@dataclass(frozen=True, slots=True)
class SchemaDrift:
    """The changes of a source table against the plan, by what becomes of them.

    taken         those that the plan has already, and that no commit has brought yet
    needs_resync  only a fresh copy brings the lake table there
    by_resync     the changes for which that is so
    lost_aside    those that need it although their column is set aside
    aside         source name → how its column can be set aside
    impossible    why they cannot be approved; "" = they can
    """

    followed: tuple[SchemaChange, ...] = ()
    proposed: tuple[SchemaChange, ...] = ()
    blocking: tuple[SchemaChange, ...] = ()
    left_out: tuple[SchemaChange, ...] = ()
    taken: tuple[SchemaChange, ...] = ()
    needs_resync: bool = False
    by_resync: tuple[SchemaChange, ...] = ()
    lost_aside: tuple[SchemaChange, ...] = ()
    aside: Mapping[str, Aside] = field(default_factory=dict)
    impossible: str = ""

    @property
    def is_open(self) -> bool:
        """Whether a user has to decide."""
        return bool(self.proposed or self.blocking)

    @property
    def altering(self) -> tuple[SchemaChange, ...]:
        """Those that may have given old rows other values, and stay so when the source
        takes them back."""
        return tuple(change for change in self.blocking if _may_alter(change))

    @property
    def to_approve(self) -> tuple[SchemaChange, ...]:
        return self.proposed + self.blocking

    @property
    def along(self) -> tuple[SchemaChange, ...]:
        """Those beside them that no user has to decide: a column that goes as another
        one comes may have been renamed."""
        return self.followed + self.taken

    def without(self, names: Collection[str]) -> SchemaDrift:
        """What is left to take over where these columns are set aside."""
        if not names:
            return self
        by_resync = (
            *(change for change in self.by_resync if change.column not in names),
            *(change for change in self.lost_aside if change.column in names),
        )
        return dataclasses.replace(
            self,
            followed=_without(self.followed, names),
            proposed=_without(self.proposed, names),
            blocking=_without(self.blocking, names),
            needs_resync=bool(by_resync),
            by_resync=by_resync,
            aside={k: v for k, v in self.aside.items() if k not in names},
        )


NO_DRIFT = SchemaDrift()


def _without(
    changes: Iterable[SchemaChange], names: Collection[str]
) -> tuple[SchemaChange, ...]:
    return tuple(change for change in changes if change.column not in names)


def _may_alter(change: SchemaChange) -> bool:
    if change.kind == "retyped":
        return not keeps_values(change.before, change.after)
    return change.kind in {"removed", "narrowed", "changed"}


def judge_drift(
    plan: TablePlan,
    source: TableSchema,
    policy: SchemaPolicy,
    log: TableLog = NO_LOG,
) -> SchemaDrift:
    """What becomes of each difference between the plan and the source's columns. log:
    what its log has of the table, where that is followed."""
    create: CreateTable = plan.step(CreateTable)
    apply: ApplyChanges | None = plan.step(ApplyChanges)
    source = as_text(source, plan.as_text)
    judge = _Judge(create, apply, source, policy, _log_of(plan, log))
    found: dict[str, list[SchemaChange]] = {}
    read = tuple(c for c in create.columns if c.source_name != SHARD)
    changes = diff(_planned(read), _chosen(plan, create, source))
    for change in changes:
        found.setdefault(judge.verdict(change), []).append(change)
    blocking = tuple(found.get("blocking", ()))
    proposed = tuple(found.get("proposed", ()))
    by_resync = (
        *(change for change in proposed if judge.is_loaded_anew(change)),
        *(change for change in blocking if not judge.fits_in_place(change)),
    )
    aside = judge.aside((*proposed, *blocking))
    return SchemaDrift(
        followed=tuple(found.get("followed", ())),
        proposed=proposed,
        blocking=blocking,
        left_out=tuple(found.get("left_out", ())),
        needs_resync=bool(by_resync),
        by_resync=by_resync,
        lost_aside=tuple(c for c in by_resync if judge.is_lost_aside(c, aside)),
        aside=aside,
        impossible=judge.impossible(changes),
    )


def _log_of(plan: TablePlan, log: TableLog) -> TableLog | None:
    return log if plan.step(FollowLog) is not None else None


def taken_over(plan: TablePlan, lake: TableSchema) -> tuple[SchemaChange, ...]:
    """What the plan follows already, and readers of the lake table do not see yet. Of
    other kinds, a user decided."""
    create: CreateTable = plan.step(CreateTable)
    changes = diff(lake, _planned(create.columns + create.kept))
    return tuple(change for change in changes if change.kind in _FOLLOWED)


def evolved(
    plan: TablePlan,
    source: TableSchema,
    changes: Iterable[SchemaChange],
    *,
    kind: str,
    log: TableLog = NO_LOG,
) -> TablePlan:
    """The plan after these changes. Lake names stay; columns are added at the end. log:
    as for `judge_drift`."""
    told = _log_of(plan, log) or NO_LOG
    create: CreateTable = plan.step(CreateTable)
    source = as_text(source, plan.as_text)
    taken = list(changes)
    named = {change.column for change in taken}
    has_new_key = any(change.kind == "key" for change in taken)
    now = {c.source_name: c for c in source.columns if c.is_supported}
    pinned = {c.source_name: c.name for c in (*create.columns, *create.kept)}
    names = lake_columns(dict.fromkeys((*now, *pinned)), pinned=pinned)
    columns = []
    for old in create.columns:
        new = now.get(old.source_name)
        if old.source_name not in named:
            is_rekeyed = has_new_key and new is not None
            columns.append(
                msgspec.structs.replace(old, key=new.key) if is_rekeyed and new else old
            )
        elif new is not None:
            columns.append(_renewed(new, old.name, kind, old.older))
    known = {c.source_name for c in create.columns}
    columns += [
        _renewed(column, names[name], kind, told.older.get(name))
        for name, column in now.items()
        if name in named - known
    ]
    read = {column.source_name for column in columns}
    kept = tuple(column for column in create.kept if column.source_name not in read)
    return with_left_out(_with_columns(plan, tuple(columns), kept), source)


def set_aside(
    plan: TablePlan, source: TableSchema, names: Collection[str]
) -> TablePlan:
    """The plan without reading these columns. What the lake table has of them stays;
    those that are there at the source are not proposed again."""
    create: CreateTable = plan.step(CreateTable)
    columns = tuple(c for c in create.columns if c.source_name not in names)
    gone = tuple(c for c in create.columns if c.source_name in names)
    there = [c.source_name for c in source.columns if c.source_name in names]
    excluded = tuple(dict.fromkeys((*plan.excluded, *there)))
    plan = dataclasses.replace(plan, excluded=excluded)
    return with_left_out(_with_columns(plan, columns, create.kept + gone), source)


def _with_columns(
    plan: TablePlan,
    columns: tuple[PlannedColumn, ...],
    kept: tuple[PlannedColumn, ...],
) -> TablePlan:
    create: CreateTable = plan.step(CreateTable)
    changed = msgspec.structs.replace(create, columns=columns, kept=kept)
    steps = tuple(changed if step is create else step for step in plan.steps)
    return dataclasses.replace(plan, steps=steps)


@dataclass(frozen=True, slots=True)
class _Judge:
    create: CreateTable
    apply: ApplyChanges | None
    source: TableSchema
    policy: SchemaPolicy
    log: TableLog | None = None

    @property
    def _is_kept_up(self) -> bool:
        """Else the table is loaded once."""
        return self.apply is not None or self.log is not None

    @property
    def _pinned(self) -> frozenset[str]:
        """Columns that the lake table's identity or its capture stands on."""
        cursor = (self.apply.cursor,) if self.apply else ()
        return frozenset({*self.create.record_key, *self.create.partition_by, *cursor})

    def verdict(self, change: SchemaChange) -> _Verdict:
        match change.kind:
            case "added":
                return self._of_added(change)
            case "nullability":
                # every column of the lake may be NULL, but for its key
                is_key = change.column in self.create.record_key
                is_loosened = change.after == "nullable"
                return "blocking" if is_key and is_loosened else "followed"
            case "retyped":
                is_same = keeps_values(change.before, change.after)
                is_cursor = self.apply and change.column == self.apply.cursor
                return "followed" if is_same and not is_cursor else "blocking"
            case "widened" if self.fits_in_place(change):
                return "followed" if self.policy == "follow" else "blocking"
        return "blocking"

    def fits_in_place(self, change: SchemaChange) -> bool:
        """Whether the lake table takes it over as it is kept up, without a fresh
        copy."""
        if change.kind != "widened" or not self._is_kept_up:
            return change.kind == "nullability"
        is_key = change.column in self.create.record_key
        is_free = change.column not in self._pinned
        # a key is text to Hudi, and that of a whole number stays the same
        is_free = is_free or (is_key and change.after == "bigint")
        return is_free and widens_in_place(change.before, change.after)

    def is_loaded_anew(self, change: SchemaChange) -> bool:
        """Of what is proposed: whether a fresh copy brings it alone. A column that was
        kept has values of before, which rows at the source have no more."""
        kept = (column.source_name for column in self.create.kept)
        return self.apply is None or change.column in kept

    def aside(self, changes: Iterable[SchemaChange]) -> dict[str, Aside]:
        """How each column could be set aside: none of a key, at the source or in the
        lake, and none that the lake table stands on."""
        planned = {column.source_name: column for column in self.create.columns}
        there = {column.source_name: column for column in self.source.columns}
        found: dict[str, Aside] = {}
        for change in changes:
            name = change.column
            both = (planned.get(name), there.get(name))
            is_key = any(column is not None and column.key for column in both)
            if name and name not in self._pinned and not is_key:
                found[name] = "leave_out" if name in there else "keep_null"
        return found

    def is_lost_aside(self, change: SchemaChange, aside: Collection[str]) -> bool:
        """Whether rows of the log are missing behind it, for its reader had to stop at
        them."""
        log = self.log
        if log is None or change.column not in aside or change.kind == "added":
            return False
        is_told = change.kind == "removed" and log.tells_dropped
        return not (is_told or self.fits_in_place(change))

    def _of_added(self, change: SchemaChange) -> _Verdict:
        column = self.source.column(change.column)
        log = self.log or NO_LOG
        is_unread = change.column in {*log.unread, *log.left_out}
        if is_unread or not column.is_supported:
            return "left_out"
        if column.key:
            return "blocking"
        if self.policy == "ignore":
            return "left_out"
        if any(kept.source_name == change.column for kept in self.create.kept):
            return "proposed"
        # a table that is loaded once gets new columns with a fresh copy only, and so do
        # older rows of what a log does not tell
        is_told = log.tells_older and change.column not in log.untold
        is_told = is_told or self.log is None
        is_followed = self.policy == "follow" and self._is_kept_up and is_told
        return "followed" if is_followed else "proposed"

    def impossible(self, changes: Iterable[SchemaChange]) -> str:
        lost = sorted(
            change.column
            for change in changes
            if change.column in self._pinned
            and change.kind in {"removed", "changed", "narrowed"}
        )
        if not lost:
            return ""
        return Sentence(
            "%(lost)s is what the lake table is keyed, partitioned or"
            " followed by, and that is fixed for its life: remove the"
            " table from the sync and add it again, which loads it into a"
            " new lake table",
            lost=", ".join(lost),
        )


def _planned(columns: Iterable[PlannedColumn]) -> TableSchema:
    return TableSchema(
        tuple(
            Column(c.source_name, c.name, c.source_type, c.type, c.nullable, c.key)
            for c in columns
        )
    )


def _chosen(plan: TablePlan, create: CreateTable, source: TableSchema) -> TableSchema:
    """The source's columns without those that the plan leaves out."""
    planned = {c.source_name for c in create.columns}
    left_out = set(plan.excluded) - planned
    return TableSchema(
        tuple(c for c in source.columns if c.source_name not in left_out)
    )


def _renewed(column: Column, name: str, kind: str, older: str | None) -> PlannedColumn:
    return PlannedColumn(
        source_name=column.source_name,
        name=name,
        source_type=column.source_type,
        type=column.type,
        nullable=column.nullable,
        key=column.key,
        lossy=proposed_choice(column.source_type, column.type, kind=kind),
        older=older,
    )
