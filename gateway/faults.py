"""From an engine's error text to what a client may see. Pure.

Spark's error class and SQLSTATE stay; stack traces, plans and storage addresses go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

ENGINE_AWAY = "08S01"
DENIED = "42501"
NO_SUCH_SCHEMA = "42704"
CANCELLED = "HY008"
TIMED_OUT = "HYT00"
GENERAL = "HY000"
LONGEST = 4000

_CLASSED = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
_STATE = re.compile(r"SQLSTATE:?\s*([0-9A-Z]{5})")
_STACK = re.compile(r"\n\s*at [\w.$/<>]+\(|\n\s*Caused by: |\n\s*\.\.\. \d+ more")
_PLAN = re.compile(r";\s*line (\d+) pos (\d+);?\s*\n['+\- !:].*", re.DOTALL)
_PLAN_TAIL = re.compile(r";\n['+\-!:].*", re.DOTALL)
_ADDRESS = re.compile(r"(?:file|hdfs|s3a?|s3n|abfss?|gs):/{1,3}[^\s'\",)\]}]+")
_THROWABLE = re.compile(
    r"^(?:Error running query: |Error operating \w+: |"
    r"(?:[a-z][\w$]*\.)+[A-Z][\w$]*(?:Exception|Error)?: )+"
)


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
    shown = _STACK.split(text, maxsplit=1)[0]
    classed = list(_CLASSED.finditer(shown))
    if classed:
        # The text repeats itself once per wrapper: the last one has no class names.
        same = [m for m in classed if m[1] == classed[0][1]]
        shown = shown[same[-1].start() :]
    else:
        shown = _THROWABLE.sub("", shown)
    state = sql_state or (found[1] if (found := _STATE.search(shown)) else GENERAL)
    shown = _PLAN.sub(r"; line \1 pos \2", shown)
    shown = _PLAN_TAIL.sub("", shown)
    if lake:
        shown = shown.replace(lake, "<lake>")
    shown = _ADDRESS.sub("<lake>", shown).strip()
    return Fault(shown[:LONGEST] or "the statement failed", state, error_code)
