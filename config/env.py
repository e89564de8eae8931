"""Strict reading of `SLUICE_*` environment variables, each also as `SLUICE_*_FILE`.

Every setting is declared once, here, so that `manage.py settings` can list them
all with their meaning. A value that does not parse stops the start.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, overload

from django.core.exceptions import ImproperlyConfigured

T = TypeVar("T")
TRUE, FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}


@dataclass(frozen=True, slots=True)
class Setting:
    """A declared setting, for listing. `source` is default, env or file."""

    name: str
    meaning: str
    is_secret: bool
    source: str
    value: str


DECLARED: dict[str, Setting] = {}


@overload
def read(
    name: str, meaning: str, *, default: str | None = "", is_secret: bool = False
) -> str: ...
@overload
def read(
    name: str,
    meaning: str,
    parse: Callable[[str], T],
    *,
    default: str | None = "",
    is_secret: bool = False,
) -> T: ...
def read(
    name: str,
    meaning: str,
    parse: Callable[[str], Any] = str,
    *,
    default: str | None = "",
    is_secret: bool = False,
) -> Any:
    """The parsed value of SLUICE_<name>; ImproperlyConfigured when it is wrong."""
    full = f"SLUICE_{name}"
    source, text = _raw(full, default)
    if text is None:
        raise ImproperlyConfigured(f"{full} (or {full}_FILE) must be set: {meaning}")
    DECLARED[full] = Setting(full, meaning, is_secret, source, text)
    try:
        return parse(text)
    except ValueError as error:
        shown = "a hidden value" if is_secret else f"'{text}'"
        raise ImproperlyConfigured(
            f"{full} cannot be {shown}: {error} ({meaning})"
        ) from error


def _raw(full: str, default: str | None) -> tuple[str, str | None]:
    file = os.environ.get(f"{full}_FILE")
    if file:
        try:
            return "file", Path(file).read_text().strip()
        except OSError as error:
            raise ImproperlyConfigured(f"{full}_FILE={file}: {error}") from error
    if full in os.environ:
        return "env", os.environ[full]
    return "default", default


def boolean(text: str) -> bool:
    if text.lower() in TRUE:
        return True
    if text.lower() in FALSE:
        return False
    raise ValueError("expected true or false")


def words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def at_least(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if int(text) < least:
            raise ValueError(f"at least {least}")
        return int(text)

    return parse


def heap(text: str) -> str:
    """A size of a JVM's heap, as it came."""
    if not re.fullmatch(r"[1-9]\d{0,5}[mg]", text):
        raise ValueError("expected a size like 1200m or 4g")
    return text


def one_of(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"expected {' or '.join(allowed)}")
        return text

    return parse
