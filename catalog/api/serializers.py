"""Request bodies, typed. Meaning and rules live in the services behind."""

from __future__ import annotations

from typing import Any

from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _
from rest_framework import serializers as s

from catalog.access.invitations import DAYS
from catalog.access.table_rights import MaskKind, RuleKind
from core.sentences import Sentence

MOST_ERRORS = 100


class Text(s.CharField):
    """A string that must be a string, kept with its spaces."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(trim_whitespace=False, **kwargs)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return str(super().to_internal_value(data))


class Flag(s.BooleanField):
    """true or false, not the many things that look like them."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class OneOf(s.ChoiceField):
    """One of these values; whoever sends another is told which there are."""

    def __init__(self, choices: Any, **kwargs: Any) -> None:
        named = ", ".join(f"'{value}'" for value in choices)
        said = format_lazy(_("must be one of: {choices}"), choices=named)
        super().__init__(choices, error_messages={"invalid_choice": said}, **kwargs)


class Whole(s.IntegerField):
    """An integer, not a string of digits."""

    def to_internal_value(self, data: Any) -> int:
        if not isinstance(data, int) or isinstance(data, bool):
            self.fail("invalid")
        return int(super().to_internal_value(data))


class Items(s.ListField):
    """A list whose mistakes are named up to MOST_ERRORS; the rest is not looked at."""

    def run_child_validation(self, data: Any) -> list[Any]:
        found: list[Any] = []
        errors: dict[Any, Any] = {}
        for index, item in enumerate(data):
            try:
                found.append(self.child.run_validation(item))
            except s.ValidationError as error:
                errors[index] = error.detail
            if len(errors) == MOST_ERRORS:
                break
        if errors:
            raise s.ValidationError(errors)
        return found


class Patch(s.Serializer[Any]):
    # what is left out of a change stays as it is
    def get_fields(self) -> dict[str, Any]:
        found = super().get_fields()
        for field in found.values():
            field.required = False
        return found


class Owner(Text):
    def __init__(self, **options: Any) -> None:
        super().__init__(
            max_length=160,
            required=False,
            allow_null=True,
            help_text="user:<name> or group:<name>; null: no owner",
            **options,
        )


class Tags(Items):
    def __init__(self, **options: Any) -> None:
        super().__init__(child=Text(max_length=50), required=False, **options)


class DatasourceNew(s.Serializer[Any]):
    name = Text(max_length=100)
    kind = Text(max_length=30)
    host = Text(max_length=253)
    port = Whole(
        min_value=1,
        max_value=65_535,
        required=False,
        help_text="of its kind, unless it is given",
    )
    database = Text(max_length=200, required=False, default="", allow_blank=True)
    username = Text(max_length=200)
    password = Text(
        max_length=1_000, required=False, default="", allow_blank=True, write_only=True
    )
    tls = Text(max_length=10, required=False, default="off")
    options = s.DictField(required=False, default=dict)
    owner = Owner()
    tags = Tags()


class DatasourcePatch(Patch):
    host = Text(max_length=253)
    port = Whole(min_value=1, max_value=65_535)
    database = Text(max_length=200, allow_blank=True)
    username = Text(max_length=200)
    password = Text(max_length=1_000, allow_blank=True, write_only=True)
    tls = Text(max_length=10)
    options = s.DictField()
    owner = Owner()
    tags = Tags()


class Groups(s.ListField):
    child = Text(max_length=100)


class UserNew(s.Serializer[Any]):
    name = Text(max_length=100)
    password = Text(max_length=1_000, write_only=True)
    groups = Groups(required=False, default=list, max_length=200)
    is_admin = Flag(required=False, default=False)


class InvitationNew(s.Serializer[Any]):
    name = Text(max_length=100)
    groups = Groups(required=False, default=list, max_length=200)
    expires_in_days = Whole(required=False, default=DAYS)


class UserPatch(Patch):
    password = Text(max_length=1_000, write_only=True)
    groups = Groups(max_length=200)
    is_admin = Flag()
    is_active = Flag()
    keep_tokens = Flag(
        help_text="with a new password: the user's tokens stay, which else end"
    )


class PasswordChange(s.Serializer[Any]):
    current_password = Text(max_length=1_000, write_only=True)
    new_password = Text(max_length=1_000, write_only=True)
    keep_tokens = Flag(
        required=False, default=False, help_text="false: the caller's tokens end, too"
    )


class GrantNew(s.Serializer[Any]):
    """A `privilege` or a `role`, never both."""

    principal = Text(max_length=200)
    privilege = Text(max_length=20, required=False)
    role = Text(max_length=20, required=False)
    on = Text(max_length=700)
    allow_unknown = Flag(required=False)
    columns = s.ListField(
        child=Text(max_length=300),
        required=False,
        allow_empty=False,
        help_text="only these, of `select` on one table of the lake",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("privilege" in attrs) == ("role" in attrs):
            raise s.ValidationError(Sentence("give exactly one of privilege and role"))
        return attrs


class RuleFields(s.Serializer[Any]):
    """`expression`: of a row filter a condition, of the mask `expression` a value."""

    kind = OneOf(choices=list(RuleKind))
    on = Text(max_length=1_000)
    applies_to = Items(child=Text(max_length=200))
    mask = OneOf(choices=list(MaskKind), required=False, allow_null=True)
    expression = Text(required=False, allow_null=True, max_length=4_000)

    def get_fields(self) -> dict[str, Any]:
        # "except" is a word of Python
        more = Items(child=Text(max_length=200), required=False)
        return {**super().get_fields(), "except": more}


class RuleNew(RuleFields):
    allow_unknown = Flag(required=False)


class RuleChange(Patch, RuleFields):
    """What is left out stays as it is."""

    kind = on = None  # type: ignore[assignment]


class TablePatch(s.Serializer[Any]):
    """What is left out stays as it is."""

    owner = Owner()
    tags = Tags()


class TokenNew(s.Serializer[Any]):
    name = Text(max_length=100)
    expires_in_days = Whole(required=False, allow_null=True, default=90)


class Empty(s.Serializer[Any]):
    """A verb without a body."""
