"""Reading a source table again when the source was in the way of it.

A lock that is not released, a table that is rewritten, a snapshot that was given back:
each time everything held at the source is given back first, then the job pauses and
says why. It must not know what is read.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from core.errors import TerminalError, TransientError
from ingest.contract.table import TableSpec
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.capture.jdbc import NARROWINGS
from ingest.driver.failures import failure_of
from ingest.sources.failures import TEXT_REFUSED
from ingest.sources.registry import SOURCE_ERRORS, Source, row_too_wide

T = TypeVar("T")

# Seconds between one try and the next; after the last the job ends, and is tried again
# like any other that failed in passing.
PAUSES: tuple[float, ...] = (1, 2, 4, 8, 15, 30)
_POLL_SECONDS = 0.2
REWRITTEN = "source_rewritten"
LOCKED = "source_locked"
_WIDE = "source_rows_wide"
_REASONS = {
    LOCKED: "waits for a lock at the source",
    REWRITTEN: "the source table was rewritten while it was read",
    "source_snapshot_lost": "the snapshot of the source is gone",
    _WIDE: "rows are too wide for so many at a time",
}


@dataclass(frozen=True, slots=True)
class Trial:
    """One try.

    definition  of the table when it began; see `Source.definition`
    was_wide    how many tries before found rows too wide for the number of rows that
                they fetched at a time
    """

    definition: str = ""
    was_wide: int = 0


def read_patiently(
    run: JobRun,
    source: Source,
    read: Callable[[Trial], T],
    *,
    drop: Callable[[], None],
) -> T:
    """`read`'s result. What was staged goes by `drop` when it no longer counts."""
    table = run.spec.table
    was_wide = 0
    for pause in (*PAUSES, None):
        try:
            return _unchanged(source, table, read, was_wide)
        except Exception as error:
            code = failure_of(error).error.code
            if code == TEXT_REFUSED and run.stop_mode is None:
                raise _text_refused(source, table, error) from error
            if source.gave_way:
                # whatever failed, we ended it
                code = LOCKED
            if code not in _REASONS or run.stop_mode is not None:
                raise
            reason = _explained(source, table, code)
            if code == _WIDE and was_wide >= NARROWINGS:
                raise row_too_wide(_name(table)) from error
            if pause is None:
                raise _given_up(table, code, reason) from error
            if code == REWRITTEN:
                drop()
            was_wide += code == _WIDE
        run.explain(reason)
        run.say("warning", f"{reason}: tried again in {pause:g} s")
        _pause(run, pause)
        run.explain("")
    raise AssertionError("the last try returns or raises")


def _unchanged(
    source: Source, table: TableSpec, read: Callable[[Trial], T], was_wide: int
) -> T:
    """What `read` found, if the table was defined the same before and after it."""
    before = source.definition(table)
    try:
        found = read(Trial(before, was_wide))
    finally:
        source.give_back()
    if source.definition(table) != before:
        raise TransientError(
            f"source table {_name(table)} was changed while it was read",
            code=REWRITTEN,
        )
    return found


def _explained(source: Source, table: TableSpec, code: str) -> str:
    holder = ""
    # the lock may be that of a catalog, and the connection may be gone
    with contextlib.suppress(*SOURCE_ERRORS):
        holder = source.lock_holders(table)
    return f"{_REASONS[code]}, {holder}" if holder else _REASONS[code]


def _text_refused(source: Source, table: TableSpec, error: Exception) -> TerminalError:
    """The source's own words do not say where the text is."""
    found, said = "", failure_of(error).error
    with contextlib.suppress(*SOURCE_ERRORS):
        found = source.bad_text(table)
    why = f"{_name(table)} cannot be read: {found}" if found else said.message
    return TerminalError(
        f"{why}. Nothing of this job is visible", code=said.code, hint=said.hint
    )


def _given_up(table: TableSpec, code: str, reason: str) -> TransientError:
    return TransientError(
        f"{_name(table)} could not be read: {reason}."
        f" Given up after {len(PAUSES) + 1} tries; nothing of this job is visible",
        code=code,
        hint="it is tried again automatically; end what changes or locks the table at"
        " the source, if it should not run",
    )


def _name(table: TableSpec) -> str:
    return f"{table.source_schema}.{table.source_table}"


def _pause(run: JobRun, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        run.check()
        time.sleep(_POLL_SECONDS)
