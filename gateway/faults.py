"""From an engine's texts to what a client may see. Pure.

Spark's error class and SQLSTATE stay; stack traces, plans and storage addresses go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from core.sentences import Sentence

ENGINE_AWAY = "08S01"
DENIED = "42501"
NO_SUCH_SCHEMA = "42704"
NO_SUCH_TABLE = "42P01"
CANCELLED = "HY008"
TIMED_OUT = "HYT00"
TOO_LARGE = "54000"
TOO_COMPLEX = "54001"
NAME_TOO_LONG = "42622"
UNSUPPORTED = "0A000"
NO_PLACE = "53400"
# of TOO_LARGE, as `TooLarge.RAN_SHORT` of the engine
RAN_SHORT = 1
DISK_FULL = "53100"
RUN_AGAIN = "40001"
GENERAL = "HY000"

# the engine's stack ended in analysis or planning, behind the parser's own limits
_STACK, _BEGINNING = "java.lang.StackOverflowError", 300
_TOO_DEEP = Sentence(
    "[STATEMENT_TOO_COMPLEX] the statement is nested too deeply to be planned, or "
    "chains too many operators; split it, or move parts into WITH"
)
# what the kernel says of a disk of the engine's host or of its workers
_FULL = re.compile(r"\b(?:IOException|FSError)\b[^\n]{0,500}No space left on device")
_SCRATCH_FULL = Sentence(
    "[SCRATCH_FULL] the query engine's disk is full: what a statement sorts, joins or"
    " groups beyond its memory goes there. An administrator has to free space; then run"
    " it again, or let it touch fewer rows and columns"
)
_NOT_FOUND = re.compile(r"FileNotFoundException: ([^\n]{1,2000})")
_FILES_GONE = Sentence(
    "[FILES_REMOVED] files of a table were removed while this statement read them, as"
    " a restore and a removal of a table do. Run it again"
)
_LIMIT = re.compile(
    r"Total size of serialized results of \d+ tasks? \((?P<size>[^()]+)\) "
    r"is bigger than \S*maxResultSize \((?P<limit>[^()]+)\)"
)
_ABSENT = re.compile(r"The table or view ((?:`[^`]{1,255}`\.?){1,4}) cannot be found")
_STATE = re.compile(r"SQLSTATE:?\s*([0-9A-Z]{5})")
# as `SourcePlaces` and `PlanningPlaces` of the engine write them
_WAITS = (
    Sentence(
        "waits for a connection to %(source)s: statements of yours have %(own)s of"
        " %(most)s, those of others %(others)s"
    ),
    Sentence(
        "waits to be planned: %(each)s other statements of this user are being planned,"
        " and so many may be at once"
    ),
)


def _pattern(message: str) -> re.Pattern[str]:
    """Of the texts that it makes."""
    return re.compile(re.sub(r"%\\\((\w+)\\\)s", r"(?P<\1>.+)", re.escape(message)))


_WAITING = {_pattern(message): message for message in _WAITS}


@dataclass(frozen=True, slots=True)
class Fault:
    """A failed statement as a client sees it."""

    message: str
    sql_state: str = GENERAL
    error_code: int = 0

    def as_json(self) -> dict[str, Any]:
        """As the web process is told it, who shows it in its reader's language."""
        return {
            "code": self.sql_state,
            "message": self.message,
            "sql_state": self.sql_state,
        }


def clean(
    text: str, *, sql_state: str = "", error_code: int = 0, lake: str = ""
) -> Fault:
    """Return the presentable form of an engine's error. `lake` is the lake's root."""
    given, text = text, text[:MAX_RAW]
    if beyond := _LIMIT.search(text):
        return Fault(_too_large(beyond["size"], beyond["limit"]), TOO_LARGE, error_code)
    if _STACK in text[:_BEGINNING]:
        return Fault(_TOO_DEEP, TOO_COMPLEX, error_code)
    if _FULL.search(text):
        return Fault(_SCRATCH_FULL, DISK_FULL, error_code)
    missing = _NOT_FOUND.search(text)
    if missing and lake and lake in missing[1]:
        return Fault(_FILES_GONE, RUN_AGAIN, error_code)
    found = _STATE.search(text)
    shown = scrub_message(text)
    if lake:
        shown = shown.replace(lake, "(storage)")
    state = sql_state or (found[1] if found else GENERAL)
    message = shown[:MAX_TEXT] or Sentence("the statement failed")
    # a sentence of the gateway stays one
    return Fault(given if message == given else message, state, error_code)


def waiting_for(text: str) -> str:
    """Why a statement waits in the engine, as a sentence where it is a known one."""
    for pattern, message in _WAITING.items():
        if found := pattern.fullmatch(text):
            return Sentence(message, **found.groupdict())
    return text


def results_full() -> Fault:
    """What is said when rows that were kept for pages find no room."""
    message = Sentence(
        "[RESULTS_FULL] the disk where the gateway keeps results is full. An"
        " administrator has to free space there; then run the statement again. Clients"
        " of the gateway itself need no such room"
    )
    return Fault(message, DISK_FULL)


def in_hive_format(fault: Fault) -> Fault:
    """Return an absent table's error with the words that PyHive's dialect looks for."""
    found = _ABSENT.search(fault.message) if fault.sql_state == NO_SUCH_TABLE else None
    if found is None:
        return fault
    name = found[1].replace("`", "")
    message = f"{fault.message[:MAX_TEXT]} (SemanticException: Table not found {name})"
    return replace(fault, message=message)


def _too_large(size: str, limit: str) -> str:
    return Sentence(
        "[RESULT_TOO_LARGE] the result cannot be handed out: one part of it has"
        " %(size)s or more, and the query engine holds at most %(limit)s of a result at"
        " once. A result of any size can be read when its parts are smaller: select"
        " fewer columns or rows, or spread the rows over more parts with the hint"
        " /*+ REPARTITION(n) */",
        size=size,
        limit=limit,
    )


# Errors repeat what users wrote: possessive throughout, so each text is read once.
_EXCEPTION = r"(?:[a-z]\w*+\.[\w.$]*+(?:(?<=Exception)|(?<=Error))(?:: |$)\s*+)*+"
# what a task failed with follows; its numbers are nothing to a user
_TASK = (
    r"Job aborted due to stage failure: Task [\d.]++ in stage [\d.]++ failed"
    r" \d++ times?+, most recent failure: Lost task [\d.]++ in stage [\d.]++"
    r" \(TID \d++\) \([^()\n]{0,300}+\): "
)
_WRAPPING = re.compile(
    rf"^{_EXCEPTION}"
    r"(?:Error running query: |Error retrieving next row set: )?+"
    rf"{_EXCEPTION}(?:{_TASK}{_EXCEPTION})?+"
    rf"(?:\[(?P<class>[A-Z0-9_.]++)\] )?+{_EXCEPTION}"
)
_PLAN = re.compile(r";\n|\n(?:'[A-Z]|\+- |:- |== (?!SQL ==))")
_TRACE = re.compile(r"\n[ \t]++at [\w.$/]++\(|\nCaused by: |\nDriver stacktrace:")
_ADDRESS = re.compile(
    r"\b[a-zA-Z][a-zA-Z0-9+.-]{0,30}+:/[^\s,;\])}>'\"`]*+"
    r"|(?<![\w/.])/[\w.@=+-]++/[\w.@=+/-]*+"
)
MAX_TEXT = 4000
# The wrapping and the beginning of a plan are read before the text is cut to size.
MAX_RAW = 4 * MAX_TEXT


def scrub_message(text: str) -> str:
    """Return what a user may read of an engine's error text. Idempotent."""
    text = text[:MAX_RAW]
    wrapping = _WRAPPING.match(text)
    rest = text[wrapping.end() :] if wrapping else text
    error_class = wrapping.group("class") if wrapping else None
    if error_class and not rest.startswith("["):
        rest = f"[{error_class}] {rest}"
    for end in (_TRACE, _PLAN):
        found = end.search(rest)
        if found:
            rest = rest[: found.start()]
    return _ADDRESS.sub("(storage)", rest).strip()[:MAX_TEXT]
