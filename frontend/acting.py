"""A table action as its page shows it: what its form asks for, and what will happen.

`ingest.actions.registry` previews and starts it; the services decide whether it is
possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.models import Table
from ingest.actions import registry
from ingest.maintenance.repair_previews import Preview
from ingest.maintenance.table_action import Field, TableAction

Given = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of an action with what the form says; None = nothing yet."""

    field: Field
    value: object

    @property
    def template(self) -> str:
        return f"frontend/tables/fields/{self.field.part or self.field.kind}.html"


@dataclass(frozen=True, slots=True)
class Form:
    """before: the fields that change what will happen; after: the others. hidden: what
    came with the address and is asked for as it is."""

    before: list[FormField]
    after: list[FormField]
    hidden: list[FormField]


@dataclass(frozen=True, slots=True)
class Effects:
    """will  happen, in sentences, in order. misses  what it cannot bring back, and
    then  the action that does"""

    will: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    then: str = ""


def given_in(action: TableAction, data: Mapping[str, str]) -> dict[str, Any]:
    """What the form says, by the names of the action's fields; nothing for what it
    leaves open, or what cannot be meant."""
    found = {
        each.name: value
        for each in action.request.fields
        if not each.is_dry_run
        and (value := each.from_form(data.get(each.name, ""))) is not None
    }
    return {
        name: value
        for name, value in found.items()
        if (needs := action.request.field(name).needs) is None
        or found.get(needs[0]) == needs[1]
    }


def with_proposals(action: TableAction, table: Table, given: Given) -> dict[str, Any]:
    """The same, with what the table suggests where the form says nothing."""
    proposed = {
        each.name: each.proposal(table)
        for each in action.request.fields
        if each.proposal is not None and each.name not in given
    }
    return {**given, **proposed}


def form_of(action: TableAction, data: Given) -> Form:
    shown = [FormField(each, data.get(each.name)) for each in action.request.fields]
    labelled = [each for each in shown if each.field.label]
    return Form(
        before=[each for each in labelled if each.field.changes_preview],
        after=[each for each in labelled if not each.field.changes_preview],
        hidden=[each for each in shown if each.field.kind == "instant" and each.value],
    )


def effects_of(action: TableAction, table: Table, given: Given) -> Effects:
    """What will happen, with today's numbers where they matter."""
    if action.effects:
        return Effects(action.effects)
    if action.describe is not None:
        return Effects(_sentences(action.describe(table)))
    found = registry.preview(action, table, given)
    if not isinstance(found, Preview):
        return Effects()
    return Effects(_sentences(found.will), _sentences(found.misses), found.then)


def _sentences(lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{line}." for line in lines)
