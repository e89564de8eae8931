"""A plan as a value: steps that are shown, stored on the row and executed as shown.

Knows nothing of how a step runs. The JSON form carries a version and each step's
kind, so that a stored plan of another version is refused rather than misread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

from catalog.schema.types import TableSchema
from core.errors import InvalidRequest
from core.sentences import Sentence, as_sentence, origins_in, with_sentences
from ingest.contract.members import as_data, value_of
from ingest.contract.table import ShardSpec, Updates

VERSION = 1


class PlannedColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column that is carried, under both names and both types. older: see
    `ColumnSpec`."""

    source_name: str
    name: str
    source_type: str
    type: str
    nullable: bool
    key: int = 0
    lossy: Literal["", "null", "string"] = ""
    older: str | None = None


class _Step(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag=True, tag_field="step"
):
    """Stored with the name of its class. A member that is not known might change what
    is executed, so it is refused."""


class CreateTable(_Step, frozen=True):
    """A MERGE_ON_READ table with a bucket index, identity pinned from here on.

    record_key  source names; () together with row_hash means the whole row's hash
    lock        see `TableSpec`, as for `updates`, `kept` and `shards`
    """

    database: str
    name: str
    path: str
    record_key: tuple[str, ...]
    row_hash: bool
    partition_by: tuple[str, ...]
    buckets: int
    columns: tuple[PlannedColumn, ...]
    lock: str = ""
    updates: Updates = "full"
    kept: tuple[PlannedColumn, ...] = ()
    shards: tuple[ShardSpec, ...] = ()

    @property
    def summary(self) -> str:
        return Sentence(
            "create %(database)s.%(name)s: %(count)s columns, %(buckets)s%(lock)s"
            "%(partial)s",
            database=self.database,
            name=self.name,
            count=len(self.columns),
            buckets=_buckets(self.buckets),
            lock=Sentence(", a lock that drivers share") if self.lock else "",
            partial=Sentence(", partial updates") if self.updates == "partial" else "",
        )


def _buckets(count: int) -> Sentence:
    if count == 1:
        return Sentence("1 bucket")
    return Sentence("%(count)s buckets", count=count)


class LoadSnapshot(_Step, frozen=True):
    """Read the table in chunks under an exported snapshot, then one commit."""

    estimated_rows: int
    staging_bytes: int

    @property
    def summary(self) -> str:
        return Sentence(
            "load about %(estimated_rows)s rows as one commit",
            estimated_rows=f"{self.estimated_rows:,}",
        )


class ApplyChanges(_Step, frozen=True):
    """Keep it fresh by syncs over the cursor.

    when    the schedule in words, as it was when the plan was made
    missed  what this way of capture cannot see, in sentences for people
    """

    cursor: str
    every_seconds: int | None
    lag_seconds: float
    missed: tuple[str, ...]
    when: str = ""

    @property
    def summary(self) -> str:
        return Sentence(
            "apply rows changed by '%(cursor)s': %(when)s",
            cursor=self.cursor,
            when=as_sentence(self.when or "on request"),
        )


class FollowLog(_Step, frozen=True):
    """Keep it fresh by all that the source's log says of it.

    seen, missed  what this way of capture sees and cannot see, in sentences for people
    """

    seen: tuple[str, ...]
    missed: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        return "follow the source's log: changes within seconds, deletes included"


class Verify(_Step, frozen=True):
    """Rows committed are compared with rows staged before the table is shown."""

    how: str = "row_count"

    @property
    def summary(self) -> str:
        return "compare the committed row count with what was read"


class Publish(_Step, frozen=True):
    """From here on the table answers queries."""

    lake: str
    jdbc: str

    @property
    def summary(self) -> str:
        return Sentence("offer it to queries as %(lake)s", lake=self.lake)


Step = CreateTable | LoadSnapshot | ApplyChanges | FollowLog | Verify | Publish


@dataclass(frozen=True, slots=True)
class Proposal:
    """One decision with its reason; `choices` are the other sensible values."""

    value: Any
    reason: str
    is_chosen: bool = False
    choices: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class TablePlan:
    """What will happen to one table, or why nothing can happen yet (`blocked`).

    is_target_chosen  people named the lake database; else it was derived
    reading  what snapshot and syncs of this table promise
    left_out  see `TableSpec`
    """

    source: str
    database: str
    name: str
    fingerprint: str
    proposals: Mapping[str, Proposal]
    steps: tuple[Step, ...]
    warnings: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    as_text: tuple[str, ...] = ()
    blocked: str = ""
    reading: tuple[str, ...] = ()
    is_target_chosen: bool = False

    def step(self, kind: type[Any]) -> Any:
        """The step of that kind, or None."""
        return next((s for s in self.steps if isinstance(s, kind)), None)


def with_left_out(plan: TablePlan, source: TableSchema) -> TablePlan:
    """A plan that follows a log, with what it does not carry of the source's columns;
    another one as it is."""
    create: CreateTable | None = plan.step(CreateTable)
    if create is None or plan.step(FollowLog) is None:
        return plan
    carried = {column.source_name for column in create.columns}
    names = (column.source_name for column in source.columns)
    left = tuple(sorted(name for name in names if name not in carried))
    return replace(plan, left_out=left)


def by_cursor(plan: TablePlan, then: TablePlan) -> TablePlan:
    """A plan that follows a log as one that is synced as the other says."""
    cursor: ApplyChanges = then.step(ApplyChanges)
    steps = (cursor if isinstance(s, FollowLog) else s for s in plan.steps)
    return replace(
        plan,
        steps=tuple(steps),
        proposals=then.proposals,
        warnings=then.warnings,
        reading=then.reading,
        left_out=(),
    )


def plan_to_json(plan: TablePlan) -> dict[str, Any]:
    """The stored form: plain JSON, each step with its kind and summary.

    sentences  of its texts: what they were made of, for readers of other languages
    """
    origins: dict[str, Any] = {}
    data: dict[str, Any] = as_data(plan, origins)
    for told, step in zip(data["steps"], plan.steps, strict=True):
        origins |= origins_in(step.summary)
        told["summary"] = str(step.summary)
    return {"v": VERSION, **data, "sentences": origins}


def plan_from_json(data: Mapping[str, Any]) -> TablePlan:
    """A stored plan; InvalidRequest when version or shape differ."""
    if data.get("v") != VERSION:
        raise InvalidRequest(
            "the stored plan has version %(stored)s, this release %(version)s",
            stored=data.get("v"),
            version=VERSION,
            code="plan_outdated",
            hint="propose it again",
        )
    try:
        data = with_sentences(data)
        steps = value_of(list[dict[str, Any]], data.get("steps"))
        for step in steps:  # copies
            step.pop("summary", None)
        return value_of(TablePlan, {**data, "steps": steps})
    except ValueError as error:
        raise InvalidRequest("malformed stored plan: %(error)s", error=error) from error
