"""Tables of many databases of one server as one lake table, with a column that says
which of them a row is of. Pure.

All of them have to have the same columns and the same key: a table that could not be
read like the others would be missing in the lake without a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from catalog.schema.diff import diff
from catalog.schema.naming import lake_columns, plain_name
from catalog.schema.types import Column, TableSchema
from core.errors import InvalidRequest
from core.sentences import COLON, Sentence, as_sentence
from ingest.contract.table import SHARD, ShardSpec
from ingest.planning.facts import TIMESTAMP, TableFacts
from ingest.planning.plan import ApplyChanges, CreateTable, PlannedColumn, TablePlan

MOST_SHARDS = 1_000


@dataclass(frozen=True, slots=True)
class ShardPattern:
    """`shop_*.orders`: what the star stands for is the shard's value."""

    text: str
    before: str
    after: str
    table: str

    @classmethod
    def parse(cls, text: str) -> ShardPattern:
        """InvalidRequest `invalid_shards`."""
        before, star, rest = text.partition("*")
        after, dot, table = rest.partition(".")
        is_one = star and dot and table and "*" not in rest
        if is_one and "." not in before and (before or after):
            return cls(text, before, after, table)
        raise InvalidRequest(
            "'%(text)s' does not name a sharded table: that is one star within the"
            " name of the databases, and the name of the table, as in"
            " shop_*.orders",
            text=text,
            code="invalid_shards",
        )

    def value_of(self, database: str, table: str) -> str | None:
        """What the star stands for in the name of its database; None = it is no shard.
        It may be empty."""
        size = len(self.before) + len(self.after)
        is_long = len(database) >= size
        is_meant = database.startswith(self.before) and database.endswith(self.after)
        if table != self.table or not is_long or not is_meant:
            return None
        return database[len(self.before) : len(database) - len(self.after)]

    @property
    def database(self) -> str:
        """From which the lake's name is made."""
        return (self.before + self.after).strip("_-. ") or self.before + self.after


def check_column(name: str) -> None:
    """InvalidRequest `invalid_shards` for a name that no column of the lake has."""
    if not name or lake_columns([name])[name] != name or plain_name(name) != name:
        raise InvalidRequest(
            "'%(name)s' cannot be a column of the lake: lower case letters,"
            " digits and _",
            name=name,
            code="invalid_shards",
        )


def joined_facts(facts: Sequence[TableFacts]) -> TableFacts:
    """Of the first, with the size of all."""
    return replace(
        facts[0],
        estimated_rows=sum(one.estimated_rows for one in facts),
        estimated_bytes=sum(one.estimated_bytes for one in facts),
    )


@dataclass(frozen=True, slots=True)
class Shards:
    """values: of each table, in their order."""

    pattern: str
    column: str
    values: tuple[str, ...]


def sharded(
    plan: TablePlan,
    shards: Shards,
    facts: Sequence[TableFacts],
    plans: Sequence[TablePlan],
) -> TablePlan:
    """A plan of the first table as one of all. facts, plans: of each of them, in their
    order."""
    column, ways = shards.column, plan.proposals["capture"]
    ways = replace(ways, choices=tuple(w for w in ways.choices if w != TIMESTAMP))
    proposals = {**plan.proposals, "capture": ways}
    plan = replace(plan, source=shards.pattern, proposals=proposals)
    if why := plan.blocked or _why_not(plan, column, facts, plans):
        return replace(plan, blocked=why, steps=())
    create: CreateTable = plan.step(CreateTable)
    specs = tuple(
        ShardSpec(one.database, one.name, value)
        for one, value in zip(facts, shards.values, strict=True)
    )
    own = PlannedColumn(
        source_name=SHARD, name=column, source_type="", type="string", nullable=False
    )
    with_shard = msgspec.structs.replace(
        create,
        columns=(own, *create.columns),
        record_key=(SHARD, *create.record_key),
        shards=specs,
    )
    steps = tuple(with_shard if step is create else step for step in plan.steps)
    warnings = (
        _what_it_means(column, len(specs)),
        *plan.warnings,
        *_of_others(plan, facts, plans),
    )
    return replace(plan, steps=steps, warnings=warnings)


def with_shards(plan: TablePlan, shards: Sequence[ShardSpec]) -> TablePlan:
    """The plan with these shards, which have its columns."""
    create: CreateTable = plan.step(CreateTable)
    changed = msgspec.structs.replace(create, shards=tuple(shards))
    steps = tuple(changed if step is create else step for step in plan.steps)
    return replace(plan, steps=steps)


def common_schema(schemas: Sequence[TableSchema]) -> TableSchema:
    """What all of them have. A column that is another one in some of them is as these
    have it, so that it is seen."""
    first, *others = schemas
    if not others:
        return first
    found = []
    for column in first.columns:
        same = [_named(one, column.source_name) for one in others]
        if None in same:
            continue
        unlike = (c for c in same if c is not None and _kind(c) != _kind(column))
        found.append(next(unlike, column))
    return TableSchema(tuple(found))


def _why_not(
    plan: TablePlan,
    column: str,
    facts: Sequence[TableFacts],
    plans: Sequence[TablePlan],
) -> str:
    create: CreateTable = plan.step(CreateTable)
    if plan.step(ApplyChanges) is not None:
        return (
            "a sharded table follows its source's log, or is loaded once: syncs by a"
            " timestamp read one table"
        )
    if create.row_hash:
        return "a sharded table needs a key: choose columns as 'record_key'"
    if any(one.name == column for one in create.columns):
        return Sentence(
            "the tables have a column '%(column)s' themselves: choose another name for"
            " that of the shard",
            column=column,
        )
    if len(facts) > MOST_SHARDS:
        return Sentence(
            "%(count)s tables are more than the %(most)s that one lake table can have",
            count=f"{len(facts):,}",
            most=f"{MOST_SHARDS:,}",
        )
    for one, own in zip(facts[1:], plans[1:], strict=True):
        if own.blocked:
            return Sentence(
                "%(shard)s: %(why)s. Exclude it to go on without it",
                shard=one.source_name,
                why=as_sentence(own.blocked),
            )
        if changes := diff(facts[0].schema, one.schema):
            return Sentence(
                "%(shard)s is not like %(first)s: %(change)s. Exclude it to go on"
                " without it",
                shard=one.source_name,
                first=facts[0].source_name,
                change=changes[0].as_sentence,
            )
    return ""


def _what_it_means(column: str, count: int) -> Sentence:
    return Sentence(
        "%(count)s tables of the source are one lake table; '%(column)s' is first in"
        " its key and says which of them a row is of. Where one of them is dropped and"
        " created again, the table may need a resync",
        count=count,
        column=column,
    )


def _of_others(
    plan: TablePlan, facts: Sequence[TableFacts], plans: Sequence[TablePlan]
) -> list[Sentence]:
    """What the first one is not warned of, with the first that is."""
    known = {as_sentence(one).message for one in plan.warnings}
    found: dict[str, Sentence] = {}
    for one, own in zip(facts[1:], plans[1:], strict=True):
        for warning in map(as_sentence, own.warnings):
            if warning.message not in known:
                told = Sentence(COLON, first=one.source_name, then=warning)
                found.setdefault(warning.message, told)
    return list(found.values())


def _named(schema: TableSchema, name: str) -> Column | None:
    return next((c for c in schema.columns if c.source_name == name), None)


def _kind(column: Column) -> tuple[str, str, bool, int]:
    return column.source_type, column.type, column.nullable, column.key
