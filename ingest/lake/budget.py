"""A table's compaction budget against what its files and timeline say now. No JVM."""

from __future__ import annotations

import contextlib
from datetime import datetime, timedelta

from core.errors import SluiceError
from ingest.contract.job import CompactionBudget
from ingest.lake.commits import read_commit, read_timeline
from ingest.lake.hudi.budget import Choice, choose, credit_after, first_credit
from ingest.lake.hudi.timeline import Timeline, instant_of
from ingest.lake.layout import read_layout
from ingest.lake.place import place_at
from ingest.lake.port import Place


def chosen_groups(path: str, budget: CompactionBudget, *, now: datetime) -> Choice:
    """What is worth a compaction now, and affordable."""
    base = place_at(path)
    timeline = read_timeline(base)
    groups = read_layout(path, timeline).groups
    if budget.upto:
        credit = credit_after(
            budget.credit,
            _written_after(base, timeline, budget.upto),
            amplification=budget.amplification,
            most=sum(g.base_bytes + g.log_bytes for g in groups),
        )
    else:
        credit = first_credit(groups, amplification=budget.amplification)
    return choose(groups, credit=credit, old_before=old_before(budget, now))


def old_before(budget: CompactionBudget, now: datetime) -> str:
    """The instant before which a log file is old."""
    return instant_of(now - timedelta(seconds=budget.log_age))


def _written_after(base: Place, timeline: Timeline, upto: str) -> list[tuple[str, int]]:
    """Action and bytes of what was completed after `upto`."""
    found = []
    for instant in timeline.completed_writes:
        if instant.completed > upto:
            with contextlib.suppress(SluiceError):  # it was archived a moment ago, say
                size = read_commit(base, instant).bytes_written
                found.append((instant.action, size))
    return found
