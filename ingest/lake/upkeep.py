"""What the newest cleaning of a table notes, and what was written since a look at it.

No JVM, as in `ingest.lake.commits`. What it means is `ingest.lake.hudi.keeping`.
"""

from __future__ import annotations

import contextlib

from core.errors import SluiceError, TerminalError
from ingest.contract import members
from ingest.contract.written import Totals, Wrote
from ingest.lake.commits import read_commit, read_record
from ingest.lake.hudi.keeping import EXTRA_KEY, VERSION, Kept
from ingest.lake.hudi.timeline import Timeline
from ingest.lake.port import Place


def read_kept(base: Place, timeline: Timeline) -> Kept:
    """Before the first cleaning of ours: what Hudi's own left, or nothing."""
    cleans = [i for i in timeline.instants if i.action == "clean" and i.completed]
    if not cleans:
        return Kept()
    newest = max(cleans, key=lambda instant: instant.completed)
    record = read_record(base, newest)
    text = (record.get("extraMetadata") or {}).get(EXTRA_KEY)
    if not text:
        return Kept(first=record.get("earliestCommitToRetain") or "")
    try:
        return members.decode(Kept, text, newest=VERSION)
    except ValueError as error:
        raise TerminalError(
            "clean %(asked)s of %(name)s notes what this release does not"
            " read: %(error)s",
            asked=newest.asked,
            name=base.name,
            error=error,
            code="timeline_too_new",
            hint="run the release that cleaned the table, or a newer one",
        ) from error


def read_written(
    base: Place, timeline: Timeline, before: Totals, *, most: int | None = None
) -> tuple[Totals, list[Wrote]]:
    """All that was written up to now, and of it what `before` does not have: sums of
    what a cleaning counted meanwhile, then commits, each read once and `most` at most.
    """
    kept = read_kept(base, timeline).counted
    is_behind = bool(before.upto) and before.upto < kept.upto
    wrote = kept.since(before) if is_behind else []
    start = max(before, kept, key=lambda totals: totals.upto)
    # nobody looked yet: what is still on the timeline has its own days
    upto = start.upto if before.upto else ""
    later = [i for i in timeline.completed_writes if i.completed > upto][:most]
    commits = []
    for instant in later:
        rows = size = 0
        with contextlib.suppress(SluiceError):  # it was archived a moment ago, say
            commit = read_commit(base, instant)
            rows, size = commit.rows_written + commit.rows_deleted, commit.bytes_written
        commits.append(Wrote(instant.completed, instant.action, rows, size))
    total = start.plus(one for one in commits if one.completed > start.upto)
    return total, [*wrote, *commits]
