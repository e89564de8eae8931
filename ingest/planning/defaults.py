"""What is wanted for many tables at once: each takes what it can have. Pure.

A choice for one table that is wrong is a mistake; a default that does not fit is
skipped, because hundreds of tables are not alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, get_args

from core.sentences import Sentence, as_sentence
from ingest.planning.cursor import CURSOR_TYPES
from ingest.planning.facts import (
    LOG,
    ROW_HASH,
    TIMESTAMP,
    Capture,
    Choices,
    Conditions,
    RecordKey,
    TableFacts,
    Target,
)
from ingest.planning.key import propose_key
from ingest.planning.partitions import BY_DAY, PARTITION_TYPES
from ingest.planning.plan import Proposal, TablePlan
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
    capture: Capture | None,
) -> tuple[Capture, TablePlan]:
    """The plan with the defaults that fit, and the way of capture it is for.

    capture  None = nobody said: the log where it can be followed, else by timestamp,
             and the plan says what the log lacks
    """
    wanted = choices.capture or capture
    fitted = fitting(facts, choices, defaults)

    def planned(way: Capture, choices: Choices = fitted) -> TablePlan:
        return propose_table(facts, choices, target, conditions(way))

    why_not = "" if wanted else _why_not_by_log(facts, choices, defaults)
    if wanted is None and not why_not:
        plan = planned(LOG)
        if not plan.blocked:
            return LOG, _telling(plan, LOG, _BY_LOG)
        why_not = plan.blocked
    way: Capture = wanted or TIMESTAMP
    plan, why = planned(way), Sentence("chosen")
    if not wanted:
        why = Sentence("not by the log: %(why_not)s", why_not=as_sentence(why_not))
    is_open = plan.blocked and defaults.load_once and choices.capture is None
    if is_open and way != "snapshot":
        loaded = planned(
            "snapshot", replace(fitted, record_key=_any_key(facts, fitted))
        )
        if not loaded.blocked:
            return "snapshot", _telling(loaded, "snapshot", _ONCE)
    is_other = why_not != plan.blocked
    if plan.blocked and is_other and wanted is None and facts.log is not None:
        also = Sentence(
            "%(blocked)s. Or have it followed by the log: %(why_not)s",
            blocked=as_sentence(plan.blocked),
            why_not=as_sentence(why_not),
        )
        plan = replace(plan, blocked=also)
    return way, _telling(plan, way, why, is_chosen=wanted is not None)


_BY_LOG = (
    "the source's log can be followed: it has every change, deletes included, and"
    " costs the source no queries"
)
_ONCE = "it cannot be kept fresh, and 'otherwise' says that it is loaded once then"


def _why_not_by_log(facts: TableFacts, choices: Choices, defaults: PlanDefaults) -> str:
    """What was said of syncs decides; "" = nothing was."""
    if facts.log is None:
        return "discover the source again to learn whether it can be followed"
    said = {
        "cursor": choices.cursor or defaults.cursors,
        "schedule": choices.schedule,
        "updates": choices.updates == "partial",
        "record_key": choices.record_key == ROW_HASH,
    }
    names = ", ".join(f"'{name}'" for name, is_said in said.items() if is_said)
    return (
        Sentence("what was chosen by %(names)s is of syncs", names=names)
        if names
        else ""
    )


def _telling(
    plan: TablePlan, way: Capture, why: str, *, is_chosen: bool = False
) -> TablePlan:
    others = tuple(one for one in get_args(Capture) if one != way)
    proposal = Proposal(way, why, is_chosen=is_chosen, choices=others)
    return replace(plan, proposals={"capture": proposal, **plan.proposals})


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
