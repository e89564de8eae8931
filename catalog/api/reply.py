"""Replies that are declared once: OpenAPI shows the serializer that makes them.

A member is the attribute of that name (or of its `source`), or what is made of the row
by `of`, or the serializer's static method `<member>_of`. None stays null.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from typing import Any, TypeVar

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers as s

from core.json_values import exact, iso
from core.sentences import Sentence, as_sentence

# Members that hold them, or lists of them; one without parameters is stored as its text
# alone.
SENTENCES = frozenset(
    {
        "message", "hint", "reason", "status_reason", "closed_reason", "waits_for",
        "way_out", "changes", "will", "misses", "warnings", "partial_columns",
        "resync_needed", "replaced", "summary", "cause", "paused_reason", "last_error",
        "description",
    }
)  # fmt: skip
Body = dict[str, Any]
_Show = Callable[[Any], Any]
F = TypeVar("F")


class _Sentences(list[Sentence]):
    pass


def kept(value: Any) -> Any:
    """A text, or a list of texts, as sentences."""
    if isinstance(value, str):
        return as_sentence(value)
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return _Sentences(map(as_sentence, value))
    return value


# Base of all replies; OpenAPI shows docstrings of serializers, inherited ones too.
class Reply(s.Serializer[Any]):
    @classmethod
    def body(cls, row: Any) -> Body:
        """For views. What a serializer costs is its making, so it is made once."""
        return _made(cls).to_representation(row)

    def to_representation(self, row: Any) -> Body:
        found: Body = {}
        for name, read, show in self._members:
            value = read(row)
            # a sentence is kept as one: its reader may want another language
            if name in SENTENCES:
                value = kept(value)
            is_shown = value is None or isinstance(value, Sentence | _Sentences)
            found[name] = value if is_shown else show(value)
        return found

    @cached_property
    def _members(self) -> list[tuple[str, _Show, _Show]]:
        return [
            (name, self._reader(name, field), field.to_representation)
            for name, field in self.fields.items()
        ]

    def _reader(self, name: str, field: s.Field[Any, Any, Any, Any]) -> _Show:
        """How the member is read from a row, which may be a stored JSON object."""
        declared = self._declared_fields.get(name)
        made = getattr(self, f"{name}_of", None) or getattr(declared, "made", None)
        if made is not None:
            return made  # type: ignore[no-any-return]
        first, *rest = field.source_attrs

        def read(row: Any) -> Any:
            row = row[first] if type(row) is dict else getattr(row, first)
            for part in rest:
                if row is None:
                    return None
                row = row[part] if type(row) is dict else getattr(row, part)
            return row

        return read


@cache
def _made(reply: type[Reply]) -> Reply:
    return reply()


def of(field: F, made: _Show) -> F:
    """The field of a member that is made of the row."""
    field.made = made  # type: ignore[attr-defined]
    return field


class Instant(s.DateTimeField):
    """ISO 8601 in UTC with Z."""

    def to_representation(self, value: Any) -> str:
        return value if isinstance(value, str) else iso(value)


class OrNull(s.CharField):
    """A text; null where it is stored empty."""

    def __init__(self, **given: Any) -> None:
        super().__init__(allow_null=True, **given)

    def to_representation(self, value: str) -> str | None:  # type: ignore[override]
        return value or None


class Texts(s.ListField):
    child = s.CharField()


@extend_schema_field({"oneOf": [{"type": "integer"}, {"type": "string"}]})
class Count(s.Field[Any, Any, Any, Any]):
    """A number, as a string beyond 2^53."""

    def to_representation(self, value: int) -> int | str:
        return exact(value)


# The shape of JSON that is passed on as it was stored.
class Stored(s.Serializer[Any]):
    def to_representation(self, stored: Any) -> Any:
        return stored
