"""How the columns of a table changed between two looks, and their fingerprint.

Pure. A change is breaking when the lake table cannot simply go on: a person, or a
re-sync, has to decide.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from catalog.schema.types import Column, DataType, TableSchema
from core.sentences import Sentence

Kind = Literal[
    "added",  # a new column; old rows hold null for it until a re-sync
    "removed",
    "widened",  # every old value fits the new lake type
    "narrowed",  # the reverse
    "changed",  # another family of types, or from carried to not carried
    "retyped",  # the source's type changed, the lake's did not
    "nullability",
    "key",
]
_BREAKING = frozenset({"removed", "narrowed", "changed", "key"})
_SENTENCES: Mapping[Kind, str] = {
    "added": Sentence("column '%(column)s' (%(after)s) was added"),
    "removed": Sentence("column '%(column)s' (%(before)s) was removed"),
    "widened": Sentence("column '%(column)s' widened: %(before)s → %(after)s"),
    "narrowed": Sentence("column '%(column)s' narrowed: %(before)s → %(after)s"),
    "changed": Sentence("column '%(column)s' changed: %(before)s → %(after)s"),
    "retyped": Sentence("column '%(column)s' retyped: %(before)s → %(after)s"),
    "nullability": Sentence("column '%(column)s' nullability: %(before)s → %(after)s"),
    "key": Sentence("the key was (%(before)s) and is now (%(after)s)"),
}
_FIELDS = tuple(field.name for field in fields(Column))
_WIDER = frozenset({("int", "bigint"), ("float", "double")})


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One difference. `column` is a source name ("" for the key as a whole)."""

    kind: Kind
    column: str
    before: str = ""
    after: str = ""

    @property
    def is_breaking(self) -> bool:
        return self.kind in _BREAKING

    def __str__(self) -> str:
        return str(self.as_sentence)

    @property
    def as_sentence(self) -> Sentence:
        facts = {"column": self.column, "before": self.before, "after": self.after}
        return Sentence(_SENTENCES[self.kind], **facts)


def diff(old: TableSchema, new: TableSchema) -> tuple[SchemaChange, ...]:
    """The changes from `old` to `new`, columns matched by source name.

    A renamed column is one removed and one added: catalogs do not tell them apart.
    The order of columns does not matter.
    """
    before = {column.source_name: column for column in old.columns}
    after = {column.source_name: column for column in new.columns}
    changes = [
        SchemaChange("removed", name, before=_shown(column))
        for name, column in before.items()
        if name not in after
    ]
    for name, column in after.items():
        if name in before:
            changes += _compared(before[name], column)
        else:
            changes.append(SchemaChange("added", name, after=_shown(column)))
    if old.primary_key != new.primary_key:
        keys = (", ".join(schema.primary_key) for schema in (old, new))
        changes.append(SchemaChange("key", "", *keys))
    return tuple(changes)


def fingerprint(schema: TableSchema) -> str:
    """64 hex digits, equal when names, order, types, nullability and key are.

    Comments and lake names do not count: they change no value.
    """
    facts = [
        (c.source_name, c.source_type, c.type, c.nullable, c.key)
        for c in schema.columns
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def columns_as_json(schema: TableSchema) -> list[dict[str, Any]]:
    """For SchemaVersion rows and plans; `columns_from_json` reads it back."""
    # Not asdict(): its deep copies took a quarter of a discovery's time.
    return [
        {name: getattr(column, name) for name in _FIELDS} for column in schema.columns
    ]


def columns_from_json(data: Iterable[Mapping[str, Any]]) -> TableSchema:
    """Also of a lake table, whose plan says more of its columns."""
    known = ({k: v for k, v in column.items() if k in _FIELDS} for column in data)
    return TableSchema(tuple(Column(**column) for column in known))


def is_wider(old: str, new: str) -> bool:
    """Whether lake type `new` holds every value of `old` and Hudi can promote it."""
    if (old, new) in _WIDER:
        return True
    a, b = DataType.parse(old), DataType.parse(new)
    if a.name == "array" == b.name:
        return is_wider(a.element, b.element)
    if a.name == "decimal" == b.name:
        whole = b.precision - b.scale >= a.precision - a.scale
        return whole and b.scale >= a.scale and a != b
    return False


def _compared(old: Column, new: Column) -> Iterator[SchemaChange]:
    if old.type != new.type:
        kind = _type_change(old.type, new.type)
        yield SchemaChange(kind, new.source_name, _shown(old), _shown(new))
    elif old.source_type != new.source_type:
        yield SchemaChange("retyped", new.source_name, old.source_type, new.source_type)
    if old.nullable != new.nullable:
        values = ("nullable" if c.nullable else "not null" for c in (old, new))
        yield SchemaChange("nullability", new.source_name, *values)


def _type_change(old: str, new: str) -> Kind:
    if not old:
        return "added"
    if not new:
        return "changed"
    if is_wider(old, new):
        return "widened"
    return "narrowed" if is_wider(new, old) else "changed"


def _shown(column: Column) -> str:
    return column.type or f"{column.source_type}, not synced"
