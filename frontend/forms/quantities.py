"""Durations and sizes as people write them: "15 min", "256 MB". A bare number is in
seconds or bytes."""

from __future__ import annotations

import re
from typing import Any, Final

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from frontend.templatetags.figures import UNITS

LENGTHS: Final = {"d": 86_400, "h": 3_600, "min": 60, "s": 1}
SIZES: Final = {
    **{f"{unit}B": 1000**power for power, unit in enumerate(["", "K", "M", "G", "T"])},
    **{f"{unit}iB": 1024**power for power, unit in enumerate(["", "K", "M", "G", "T"])},
}
LONGEST: Final = 60
OTHER_NAMES: Final = {"sec": 1, "m": 60, "w": 7 * 86_400}
# Possessive: else the digits of a text that is no amount are split in every way, and
# fifty of them keep a process for ever.
_PART: Final = re.compile(r"(\d++(?:\.\d++)?+)\s*+([^\d\s.]*+)\s*+")
_WHOLE: Final = re.compile(rf"(?:{_PART.pattern})++")


def amount_in(text: str, unit: str) -> float | None:
    """Seconds (unit "s") or bytes of "2 h 10 min", "1.5GB"; None = no such thing."""
    text = text.strip()
    if not _WHOLE.fullmatch(text):
        return None
    known = _units(unit)
    total = 0.0
    for number, name in _PART.findall(text):
        factor = known.get(name.casefold()) if name else 1
        if factor is None:
            return None
        total += float(number) * factor
    return total


def in_units(value: float, unit: str) -> str:
    """In the largest unit that has it as a whole number."""
    if unit == "s":
        for name, factor in LENGTHS.items():
            if value and value % factor == 0:
                return f"{value // factor:g} {UNITS[name]}"
        return f"{value:g} {UNITS['s']}"
    for name, factor in sorted(SIZES.items(), key=lambda one: -one[1]):
        if value and factor > 1 and value % factor == 0:
            return f"{value // factor:g} {name}"
    return f"{value:.0f} B"


def _units(unit: str) -> dict[str, int]:
    if unit != "s":
        return {name.casefold(): factor for name, factor in SIZES.items()}
    own = {str(UNITS[name]).casefold(): factor for name, factor in LENGTHS.items()}
    return {**LENGTHS, **OTHER_NAMES, **own}


class QuantityField(forms.Field):
    """Its value is a number of seconds or bytes. unit: "s" or "bytes"."""

    default_error_messages = {
        "s": _("Enter a time such as 90 s, 15 min or 2 h."),
        "bytes": _("Enter a size such as 256 MB or 1.5 GB."),
    }

    def __init__(self, *, unit: str, is_whole: bool = True, **more: Any) -> None:
        super().__init__(**more)
        self.unit, self.is_whole = unit, is_whole

    def to_python(self, value: Any) -> Any:
        text = str(value or "").strip()[:LONGEST]
        if not text:
            return None
        found = amount_in(text, self.unit)
        if found is None or (self.is_whole and found != int(found)):
            raise ValidationError(self.error_messages[self.unit])
        return int(found) if self.is_whole else found

    def prepare_value(self, value: Any) -> Any:
        is_number = isinstance(value, int | float)
        return in_units(value, self.unit) if is_number else value
