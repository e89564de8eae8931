"""What the mapping of a source's types answers, whatever the kind of source. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# What becomes of values that the lake's type has no place for.
Lossy = Literal["", "null", "string"]

MAX_PRECISION = 38


@dataclass(frozen=True, slots=True)
class Mapped:
    """The lake type as text ("" = not carried, then `reason` says why).

    cannot_hold  values of the source's type that the lake type has no place for;
                 "" = none. They need a choice: null (counted) or the string type.
    """

    type: str
    reason: str = ""
    cannot_hold: str = ""
