"""Columns that are carried as text by choice: their text holds every value.

Infinity, zero dates, NaN and arrays of several dimensions have no form in the lake's
types of the same name, so they read as NULL, and no key may be NULL. Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from catalog.schema.types import Column, TableSchema
from catalog.sources.registry import cannot_hold
from core.errors import InvalidRequest
from core.sentences import Sentence
from ingest.planning.facts import Choices, TableFacts, Target

_TIMES = ("date", "timestamp", "timestamp_ntz")


def can_be_text(lake_type: str) -> bool:
    return lake_type in _TIMES or lake_type.startswith(("decimal", "array<"))


def as_text(schema: TableSchema, names: Collection[str]) -> TableSchema:
    """The schema with these columns as text, where they can be."""
    return TableSchema(
        tuple(
            replace(c, type="string")
            if c.source_name in names and can_be_text(c.type)
            else c
            for c in schema.columns
        )
    )


def with_texts(
    facts: TableFacts, choices: Choices, target: Target
) -> tuple[TableFacts, Target]:
    """What is planned with; InvalidRequest `invalid_as_text`."""
    if not choices.as_text:
        return facts, target
    for name in choices.as_text:
        if not can_be_text(facts.schema.column(name).type):
            raise InvalidRequest(
                "'%(name)s' of %(source_name)s is %(source_type)s, of which"
                " the lake holds every value: it is not synced as text",
                name=name,
                source_name=facts.source_name,
                source_type=facts.schema.column(name).source_type,
                code="invalid_as_text",
                hint="dates, timestamps, decimals and arrays can be synced as text",
                facts={"field": "as_text", "table": facts.source_name},
            )
    kept = {n: v for n, v in target.lossy.items() if n not in choices.as_text}
    schema = as_text(facts.schema, choices.as_text)
    return replace(facts, schema=schema), replace(target, lossy=kept)


def without_form(column: Column, kind: str) -> str:
    """Values of a key's column that stop a load or a sync, in words; "" = none."""
    found = cannot_hold(column.source_type, column.type, kind=kind)
    if column.type.startswith("array<"):
        return (
            Sentence("%(found)s, and several dimensions", found=found)
            if found
            else Sentence("several dimensions")
        )
    return found


def what_stops(columns: Collection[Column], kind: str) -> tuple[str, ...]:
    """What a plan says of the columns of its key."""
    found = [(column, without_form(column, kind)) for column in columns]
    return tuple(
        Sentence(
            "column '%(name)s' (%(type)s) is of the key: a"
            " row with a value there that no lake type has (%(values)s)"
            " stops the load or the sync, for no key may be NULL."
            " 'as_text' syncs the column as text, which holds it",
            name=c.source_name,
            type=c.source_type,
            values=values,
        )
        for c, values in found
        if values
    )
