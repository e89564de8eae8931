"""What is wanted for many tables at once: each takes what it can have. Pure.

A choice for one table that is wrong is a mistake; a default that does not fit is
skipped, because hundreds of tables are not alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ingest.planning.cursor import CURSOR_TYPES
from ingest.planning.facts import (
    LOG,
    ROW_HASH,
    Capture,
    Choices,
    Conditions,
    RecordKey,
    TableFacts,
    Target,
)
from ingest.planning.key import propose_key
from ingest.planning.log import refuse_unfollowed_kind
from ingest.planning.partitions import BY_DAY, PARTITION_TYPES
from ingest.planning.plan import TablePlan
from ingest.planning.propose import propose_table


@dataclass(frozen=True, slots=True)
class PlanDefaults:
    """cursors  names in order of preference; the first a table has is taken.
    partition_by, exclude_columns  where a table has them; keys are never left out.
    row_hash   for tables without a key.
    load_once  tables that cannot be kept fresh by timestamp are loaded once"""

    cursors: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    buckets: int | None = None
    exclude_columns: tuple[str, ...] = ()
    row_hash: bool = False
    load_once: bool = False

    def to_data(self) -> dict[str, Any]:
        """As a request has it; absent = as proposed."""
        found = {
            "cursor": list(self.cursors),
            "partition_by": list(self.partition_by),
            "buckets": self.buckets,
            "exclude_columns": list(self.exclude_columns),
            "record_key": ROW_HASH if self.row_hash else None,
            "otherwise": "snapshot" if self.load_once else None,
        }
        return {key: value for key, value in found.items() if value}


NO_DEFAULTS = PlanDefaults()
ConditionsOf = Callable[[Capture], Conditions]


def plan_with_defaults(
    facts: TableFacts,
    choices: Choices,
    defaults: PlanDefaults,
    target: Target,
    conditions: ConditionsOf,
    capture: Capture,
) -> tuple[Capture, TablePlan]:
    """The plan with the defaults that fit, and the way of capture it is for."""
    chosen = choices.capture or capture
    if chosen == LOG:
        refuse_unfollowed_kind(facts)
    fitted = fitting(facts, choices, defaults)
    plan = propose_table(facts, fitted, target, conditions(chosen))
    is_open = plan.blocked and defaults.load_once and choices.capture is None
    if not is_open or chosen == "snapshot":
        return chosen, plan
    once = replace(fitted, record_key=_any_key(facts, fitted))
    loaded = propose_table(facts, once, target, conditions("snapshot"))
    return (chosen, plan) if loaded.blocked else ("snapshot", loaded)


def fitting(facts: TableFacts, choices: Choices, defaults: PlanDefaults) -> Choices:
    """`choices` filled up with what this table can have of `defaults`."""
    types = {c.source_name: c.type for c in facts.schema.columns}
    cursors = [n for n in defaults.cursors if types.get(n) in CURSOR_TYPES]
    cursor = choices.cursor or next(iter(cursors), None)
    can_part = {n for n, t in types.items() if t in (*PARTITION_TYPES, *BY_DAY)}
    partition = defaults.partition_by if set(defaults.partition_by) <= can_part else ()
    partition = choices.partition_by or partition
    kept = {cursor, *partition, *facts.schema.primary_key}
    key = choices.record_key
    kept |= set(key) if isinstance(key, tuple) else set()
    known = {*types, *facts.hidden}
    left_out = [n for n in defaults.exclude_columns if n in known and n not in kept]
    fitted = replace(
        choices,
        cursor=cursor,
        partition_by=partition,
        buckets=choices.buckets or defaults.buckets,
        exclude_columns=choices.exclude_columns or tuple(dict.fromkeys(left_out)),
    )
    if defaults.row_hash:
        return replace(fitted, record_key=_any_key(facts, fitted))
    return fitted


def replaced(choices: Choices, defaults: PlanDefaults) -> Choices:
    """`choices` without what `defaults` decides anew."""
    return replace(
        choices,
        cursor=None if defaults.cursors else choices.cursor,
        partition_by=() if defaults.partition_by else choices.partition_by,
        buckets=None if defaults.buckets else choices.buckets,
        exclude_columns=() if defaults.exclude_columns else choices.exclude_columns,
    )


def _any_key(facts: TableFacts, choices: Choices) -> RecordKey:
    """What was chosen; a hash of the row where nothing else can be proposed."""
    if choices.record_key is not None:
        return choices.record_key
    carried = [
        c for c in facts.schema.columns if c.source_name not in choices.exclude_columns
    ]
    is_keyless = propose_key(facts, choices, carried).value is None
    return ROW_HASH if is_keyless else None
