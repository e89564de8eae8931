"""Entries of a configuration document: requests of REST, as a file states them.

A file names the variable that holds a secret, and says nothing of what stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rest_framework import serializers as s
from rest_framework.settings import api_settings

from catalog.api.problems import flattened
from catalog.api.serializers import (
    DatasourceNew,
    Flag,
    GrantNew,
    Owner,
    RuleFields,
    Text,
    UserNew,
    Whole,
)

_OF_ALL = api_settings.NON_FIELD_ERRORS_KEY
_NO_TEXT = "must be a text"
# YAML has other types than these for what is not in quotes.
_MESSAGES: dict[type[s.Field[Any, Any, Any, Any]], dict[str, str]] = {
    Text: {
        "invalid": f"{_NO_TEXT}; put it in quotes",
        "null": _NO_TEXT,
        "blank": _NO_TEXT,
    },
    Whole: {"invalid": "must be a whole number", "null": "must be a whole number"},
    Flag: {"invalid": "must be true or false", "null": "must be true or false"},
    s.ListField: {"not_a_list": "must be a list", "null": "must be a list"},
    s.DictField: {"not_a_dict": "must have members", "null": "must have members"},
}


class Stated(s.Serializer[Any]):
    """Members that are not stated stay away; the others are as the file has them.

    needed  members without which an entry names nothing
    """

    needed: ClassVar[tuple[str, ...]] = ()

    def get_fields(self) -> dict[str, Any]:
        found = super().get_fields()
        for field in found.values():
            _name_types(field)
        return found

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        known = ", ".join(self.fields)
        if not isinstance(data, Mapping):
            raise s.ValidationError({_OF_ALL: [f"must have members: {known}"]})
        faults: dict[str, Any] = {
            name: f"unknown; known: {known}" for name in data if name not in self.fields
        }
        missing = [f"'{name}' is missing" for name in self.needed if name not in data]
        if missing:
            faults[_OF_ALL] = missing
        try:
            found = super().to_internal_value(data)
        except s.ValidationError as error:
            raise s.ValidationError({**faults, **error.detail}) from None  # type: ignore[dict-item]
        if faults:
            raise s.ValidationError(faults)
        return {name: value for name, value in found.items() if value is not None}


def _name_types(field: Any) -> None:
    for kind, messages in _MESSAGES.items():
        if isinstance(field, kind):
            field.error_messages |= messages
    if isinstance(field, s.ChoiceField):
        known = " or ".join(map(str, field.choices))
        field.error_messages["invalid_choice"] = f"must be {known}, not '{{input}}'"
    if child := getattr(field, "child", None):
        _name_types(child)


def stated(
    shape: type[Stated], data: Any, at: str
) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """The members of an entry and its faults with their JSON pointers: one of both is
    empty. at: of the entry, "" = of the document."""
    checked = shape(data=data, partial=True)
    if checked.is_valid():
        return dict(checked.validated_data), []
    return {}, list(flattened(checked.errors, at))


class Sections(Stated):
    """The document itself."""

    sluice = Whole()
    users = s.ListField()
    datasources = s.ListField()
    policies = s.ListField()
    onboardings = s.ListField()
    grants = s.ListField()
    rules = s.ListField()
    alert_targets = s.ListField()


class Identity(Stated):
    provider = Text()
    subject = Text()
    needed = ("provider", "subject")


class StatedUser(Stated, UserNew):
    password = None  # type: ignore[assignment]
    password_env = Text()
    is_active = Flag()
    identity = Identity()
    needed = ("name",)


class StatedDatasource(Stated, DatasourceNew):
    owner = Owner(allow_blank=True)
    password = None  # type: ignore[assignment]
    password_env = Text()
    needed = ("name", "kind")


class StatedGrant(Stated, GrantNew):
    allow_unknown = None  # type: ignore[assignment]
    needed = ("principal", "on")


class StatedRule(Stated, RuleFields):
    needed = ("kind", "on", "applies_to")
