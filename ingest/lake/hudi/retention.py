"""What cleaning leaves: commits for running queries, savepoints for people. Pure.

Hudi's cleaner counts commits; people think in the time a query may take.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from ingest.lake.hudi.timeline import SERVICES, WRITES, Timeline, instant_of

# kept however old they are: the versions before and after the newest compaction
LEAST_COMMITS = 10
# savepoints hold back cleaning and archiving, so they do not stay for ever
SAVEPOINT_KEPT = timedelta(days=7)


def commits_to_keep(timeline: Timeline, *, seconds: float, now: datetime) -> int:
    """The newest commits that must stay for readers who began up to `seconds` ago.

    Hudi keeps of each file group what is newer than the oldest of them, and the one
    version before. A commit that ended since counts from when it was asked for: until
    then readers took the version that it replaced.
    """
    since = instant_of(now - timedelta(seconds=seconds))
    ended = [i.asked for i in timeline.completed_writes if i.completed > since]
    oldest = min([since, *ended])
    kinds = WRITES | SERVICES
    newer = sum(i.asked >= oldest and i.action in kinds for i in timeline.instants)
    return max(LEAST_COMMITS, newer + 1)


def ended_savepoints(timeline: Timeline, *, now: datetime) -> list[str]:
    """Their days count from when they were made, however old the commit is."""
    limit = instant_of(now - SAVEPOINT_KEPT)
    return [asked for asked, made in timeline.savepoints.items() if made < limit]
