"""Path parts: names percent-encoded with dots allowed, and verbs after a colon."""

from __future__ import annotations

from functools import cache

from django.urls import register_converter
from django.urls.converters import StringConverter


class NameConverter(StringConverter):
    """A name of a database or table: anything but "/"; that one goes by ?name=."""

    regex = "[^/]+"


class SourceConverter(StringConverter):
    """A name that a verb may follow: no colon in it."""

    regex = "[^/:]+"


class NumberConverter:
    """A 64-bit id; longer digits are no address at all."""

    regex = "[0-9]{1,18}"

    def to_python(self, value: str) -> int:
        return int(value)

    def to_url(self, value: int) -> str:
        return str(value)


@cache
def register() -> None:
    """Once per process, however many URL modules ask."""
    register_converter(NameConverter, "name")
    register_converter(SourceConverter, "source")
    register_converter(NumberConverter, "id")
