"""From an engine's error text to what a client may see. Pure.

Spark's error class and SQLSTATE stay; stack traces, plans and storage addresses go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gateway.engines.scrub import scrub_message

ENGINE_AWAY = "08S01"
DENIED = "42501"
NO_SUCH_SCHEMA = "42704"
CANCELLED = "HY008"
TIMED_OUT = "HYT00"
GENERAL = "HY000"
LONGEST = 4000

_STATE = re.compile(r"SQLSTATE:?\s*([0-9A-Z]{5})")


@dataclass(frozen=True, slots=True)
class Fault:
    """A failed statement as a client sees it."""

    message: str
    sql_state: str = GENERAL
    error_code: int = 0


def clean(
    text: str, *, sql_state: str = "", error_code: int = 0, lake: str = ""
) -> Fault:
    """Return the presentable form of an engine's error. `lake` is the lake's root."""
    found = _STATE.search(text)
    shown = scrub_message(text)
    if lake:
        shown = shown.replace(lake, "(storage)")
    state = sql_state or (found[1] if found else GENERAL)
    return Fault(shown[:LONGEST] or "the statement failed", state, error_code)
