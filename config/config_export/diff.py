"""What the file wants against what is there: one line per thing. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from config.config_export.document import POLICY, Document, Item

Action = Literal["create", "change", "unchanged", "skip", "extra"]


@dataclass(frozen=True, slots=True)
class Difference:
    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Change:
    """`extra`: it is there and the file does not name it; it stays.
    `skip`: it differs and cannot be changed this way; `reason` says what can be done.
    """

    action: Action
    item: Item
    differences: tuple[Difference, ...] = ()
    reason: str = ""


def with_password(change: Change) -> Change:
    """The change, with a password that is another one."""
    changed = (*change.differences, Difference("password", "(secret)", "(secret)"))
    return replace(change, action="change", differences=changed)


def compare(have: Iterable[Item], wanted: Document) -> list[Change]:
    """In the order of the file, then what only the configuration has."""
    there = {(item.kind, item.key): item for item in have}
    changes = []
    for item in wanted.items:
        found = there.pop((item.kind, item.key), None)
        if found is None and not _is_empty_policy(item):
            changes.append(Change("create", item))
            continue
        differences = _differences(found, item) if found else ()
        changes.append(
            Change("change" if differences else "unchanged", item, differences)
        )
    left = [item for item in there.values() if wanted.covers(item)]
    left.sort(key=lambda item: (item.kind, item.key))
    return changes + [Change("extra", item) for item in left]


def _is_empty_policy(item: Item) -> bool:
    """Whether it sets nothing: one that takes back what nobody has set."""
    return item.kind == POLICY and all(v is None for v in item.fields.values())


def _differences(have: Item, wanted: Item) -> tuple[Difference, ...]:
    before = _one_by_one(have.fields)
    return tuple(
        Difference(name, before.get(name), value)
        for name, value in _one_by_one(wanted.fields).items()
        if not _is_same(before.get(name), value)
    )


def _one_by_one(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Options each by itself: one that is not stated is left as it is."""
    plain = {name: value for name, value in fields.items() if name != "options"}
    options = fields.get("options") or {}
    return plain | {f"options.{name}": value for name, value in options.items()}


def _is_same(before: Any, after: Any) -> bool:
    """What is empty is not there."""
    nothing: tuple[Any, ...] = (None, "", [])
    return before == after or (before in nothing and after in nothing)
