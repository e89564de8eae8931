"""Lake = source by key and value, or the job did not succeed and says what is wrong.

A stated limit is part of it: timestamp capture sees no deletes, so a key that the
source had during the run, and has no more, may stay in the lake until a re-sync.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ingest.contract.job import JobReport
from ingest.contract.table import TableSpec
from tests.hostile.history import Key, State, is_same

# beside those that begin with "source_": what a job may say of a changed source
_OTHER_NAMES = frozenset({"repeated_keys", "null_keys", "clock_ahead"})


def damage(lake: State, known: Sequence[State]) -> list[str]:
    """Right after a job, whatever its end: every key is as it was at some moment
    since the run began, and is absent only if it once was."""
    found = _repeated(lake)
    keys = {key for state in known for key in state}
    for key in sorted(keys | lake.keys(), key=str):
        versions = [v for state in known for v in state.get(key, [])]
        if key not in lake:
            if all(key in state for state in known):
                found.append(f"key {_shown(key)} is not in the lake, and never went")
        elif not any(is_same(lake[key][0], version) for version in versions):
            found.append(
                f"key {_shown(key)} is {dict(lake[key][0])} in the lake, and was"
                f" never that, but {[dict(v) for v in versions]}"
            )
    return found


def difference(lake: State, source: State, gone: set[Key]) -> list[str]:
    """After the syncs behind it. `gone`: keys that were deleted meanwhile."""
    found = _repeated(lake)
    for key, rows in source.items():
        if len(rows) > 1:
            found.append(f"key {_shown(key)} has {len(rows)} rows at the source")
        elif key not in lake:
            found.append(f"key {_shown(key)} is missing in the lake")
        elif not is_same(lake[key][0], rows[0]):
            found.append(
                f"key {_shown(key)} is {dict(lake[key][0])} in the lake,"
                f" {dict(rows[0])} at the source"
            )
    extra = lake.keys() - source.keys() - gone
    found += [
        f"key {_shown(key)} is only in the lake" for key in sorted(extra, key=str)
    ]
    return found


def false_verdict(
    report: JobReport, table: TableSpec, lake: State, known: Sequence[State]
) -> list[str]:
    """A verification may tell of any moment of the run, and of no other."""
    position = _micros(str(report.facts["position"] or ""))
    if report.facts.get("ahead"):
        # what no sync reads for long is a difference by now
        position = sys.maxsize
    moments = [_differs(table, lake, state, position) for state in known]
    said = report.facts["verdict"]
    if said == "equal" and all(moments):
        return ["the verification says equal, and it never was"]
    if said == "different" and not any(moments):
        return [f"the verification says different, and it never was: {report.facts}"]
    return []


def unnamed_failure(report: JobReport) -> list[str]:
    error = report.error
    if error is None:
        return [f"it ended as {report.outcome} without a reason"]
    is_named = error.code.startswith("source_") or error.code in _OTHER_NAMES
    if not is_named or not error.message:
        return [f"it does not say what is wrong: {error.code}: {error.message}"]
    return []


def _differs(table: TableSpec, lake: State, source: State, position: int) -> bool:
    cursor = next((c.name for c in table.columns if c.source_name == table.cursor), "")
    for key in lake.keys() | source.keys():
        rows = source.get(key, [])
        if rows and rows[0].get(cursor) and int(rows[0][cursor] or 0) > position:
            continue
        if key not in lake or not rows or not is_same(lake[key][0], rows[0]):
            return True
    return False


def _micros(position: str) -> int:
    from datetime import UTC, datetime, timedelta

    from ingest.contract.positions import from_text

    if not position:
        return 0
    since = from_text(position) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(microseconds=1)


def _repeated(lake: State) -> list[str]:
    return [
        f"key {_shown(key)} is {len(rows)} times in the lake"
        for key, rows in lake.items()
        if len(rows) > 1
    ]


def _shown(key: Key) -> str:
    return ", ".join(str(part) for part in key)
