"""A plan as a value: steps that are shown, stored on the row and executed as shown.

Knows nothing of how a step runs. The JSON form carries a version and each step's
kind, so that a stored plan of another version is refused rather than misread.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from core.errors import InvalidRequest
from ingest.contract.table import Updates

VERSION = 1

LoadMode = Literal["bulk_insert", "insert_overwrite_table"]


@dataclass(frozen=True, slots=True)
class PlannedColumn:
    """A column that is carried, under both names and both types."""

    source_name: str
    name: str
    source_type: str
    type: str
    nullable: bool
    key: int = 0
    lossy: Literal["", "null", "string"] = ""


@dataclass(frozen=True, slots=True)
class CreateTable:
    """A MERGE_ON_READ table with a bucket index, identity pinned from here on.

    record_key  source names; () together with row_hash means the whole row's hash
    lock        see `TableSpec`, as for `updates`
    """

    database: str
    name: str
    path: str
    record_key: tuple[str, ...]
    row_hash: bool
    partition_by: tuple[str, ...]
    buckets: int
    columns: tuple[PlannedColumn, ...]
    table_type: str = "MERGE_ON_READ"
    index_type: str = "BUCKET"
    lock: str = ""
    updates: Updates = "full"

    @property
    def summary(self) -> str:
        return (
            f"create {self.database}.{self.name}: {len(self.columns)} columns, "
            f"{self.buckets} bucket{'s' if self.buckets > 1 else ''}"
            f"{', a lock that drivers share' if self.lock else ''}"
            f"{', partial updates' if self.updates == 'partial' else ''}"
        )


@dataclass(frozen=True, slots=True)
class EvolveSchema:
    """Nullable columns that the lake table gets before anything is written."""

    added: tuple[PlannedColumn, ...]

    @property
    def summary(self) -> str:
        return "add columns: " + ", ".join(c.name for c in self.added)


@dataclass(frozen=True, slots=True)
class LoadSnapshot:
    """Read the table in chunks under an exported snapshot, then one commit."""

    estimated_rows: int
    staging_bytes: int
    mode: LoadMode = "bulk_insert"

    @property
    def summary(self) -> str:
        how = "replacing what is there" if "overwrite" in self.mode else "as one commit"
        return f"load about {self.estimated_rows:,} rows {how}"


@dataclass(frozen=True, slots=True)
class ApplyChanges:
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
        every = f"every {self.every_seconds} s" if self.every_seconds else "on request"
        when = self.when[:1].lower() + self.when[1:]
        return f"apply rows changed by '{self.cursor}' {when or every}"


@dataclass(frozen=True, slots=True)
class Verify:
    """Rows committed are compared with rows staged before the table is shown."""

    how: str = "row_count"

    @property
    def summary(self) -> str:
        return "compare the committed row count with what was read"


@dataclass(frozen=True, slots=True)
class Publish:
    """From here on the table answers queries."""

    lake: str
    jdbc: str

    @property
    def summary(self) -> str:
        return f"offer it to queries as {self.lake}"


Step = CreateTable | EvolveSchema | LoadSnapshot | ApplyChanges | Verify | Publish

_KINDS: dict[str, type[Step]] = {
    kind.__name__: kind
    for kind in (CreateTable, EvolveSchema, LoadSnapshot, ApplyChanges, Verify, Publish)
}


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
    """

    source: str
    database: str
    name: str
    fingerprint: str
    proposals: Mapping[str, Proposal]
    steps: tuple[Step, ...]
    warnings: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    as_text: tuple[str, ...] = ()
    blocked: str = ""
    reading: tuple[str, ...] = ()
    is_target_chosen: bool = False

    def step(self, kind: type[Any]) -> Any:
        """The step of that kind, or None."""
        return next((s for s in self.steps if isinstance(s, kind)), None)


def plan_to_json(plan: TablePlan) -> dict[str, Any]:
    """The stored and shown form: plain JSON, each step with its kind and summary."""
    data: dict[str, Any] = {
        field.name: getattr(plan, field.name) for field in dataclasses.fields(plan)
    }
    data["proposals"] = {k: dataclasses.asdict(p) for k, p in plan.proposals.items()}
    data["steps"] = [
        {"step": type(step).__name__, "summary": step.summary}
        | dataclasses.asdict(step)
        for step in plan.steps
    ]
    plain: dict[str, Any] = _plain(data)
    return {"v": VERSION} | plain


def plan_from_json(data: Mapping[str, Any]) -> TablePlan:
    """A stored plan; InvalidRequest when version or shape differ."""
    if data.get("v") != VERSION:
        raise InvalidRequest(
            f"the stored plan has version {data.get('v')}, this release {VERSION}",
            code="plan_outdated",
            hint="propose it again",
        )
    try:
        return TablePlan(
            source=data["source"],
            database=data["database"],
            name=data["name"],
            fingerprint=data["fingerprint"],
            proposals={k: _proposal(v) for k, v in data["proposals"].items()},
            steps=tuple(_step(s) for s in data["steps"]),
            warnings=tuple(data["warnings"]),
            excluded=tuple(data["excluded"]),
            as_text=tuple(data.get("as_text", ())),
            blocked=data["blocked"],
            reading=tuple(data.get("reading", ())),
            is_target_chosen=data.get("is_target_chosen", False),
        )
    except (KeyError, TypeError) as error:
        raise InvalidRequest(f"malformed stored plan: {error}") from error


def _proposal(data: Mapping[str, Any]) -> Proposal:
    return Proposal(
        value=data["value"],
        reason=data["reason"],
        is_chosen=data["is_chosen"],
        choices=tuple(data["choices"]),
    )


def _step(data: Mapping[str, Any]) -> Step:
    kind = _KINDS[data["step"]]
    values = {k: v for k, v in data.items() if k not in {"step", "summary"}}
    for name in ("columns", "added"):
        if name in values:
            values[name] = tuple(PlannedColumn(**c) for c in values[name])
    for name in ("record_key", "partition_by", "missed"):
        if name in values:
            values[name] = tuple(values[name])
    return kind(**values)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
