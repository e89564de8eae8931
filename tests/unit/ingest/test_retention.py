"""Cleaning leaves what running queries need, counted in commits for Hudi."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ingest.lake.hudi import timeline as timelines
from ingest.lake.hudi.timeline import Timeline, commits_to_keep, ended_savepoints


def instants(*rows: str) -> Timeline:
    """`asked-completed action` in seconds of one minute; without completed: pending."""
    names = []
    for row in rows:
        when, _, action = row.partition(" ")
        asked, _, done = when.partition("-")
        at = f"202601010000{asked}000"
        kind = "commit" if action == "compaction" and done else action
        names.append(f"{at}.{action}.requested")
        if done:
            names.append(f"{at}_202601010000{done}000.{kind}")
    return Timeline.of(names)


QUERIES = [
    # (what the timeline has, how long a query may take at second 40, kept)
    pytest.param([], 30, 1, id="nothing"),
    pytest.param(
        ["01-02 deltacommit", "03-04 deltacommit", "30-31 deltacommit"], 15, 2,
        id="one-since-and-the-one-before",
    ),
    pytest.param(
        ["01-02 deltacommit", "03-04 deltacommit", "05-30 compaction",
         "06-07 deltacommit", "30-31 deltacommit"], 15, 4,
        id="a-compaction-that-ended-since-was-asked-for-before",
    ),
    pytest.param(
        ["01-02 deltacommit", "03-04 deltacommit", "30 compaction"], 15, 2,
        id="what-is-planned-counts-for-Hudi",
    ),
    pytest.param(
        ["01-02 deltacommit", "30-31 clean", "31-32 rollback"], 15, 1,
        id="cleans-do-not-count",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "seconds", "kept"), QUERIES)
def test_commits_are_kept_for_the_longest_query(
    rows: list[str], seconds: float, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime(2026, 1, 1, 0, 0, 40, tzinfo=UTC)
    timeline = instants(*rows)
    assert commits_to_keep(timeline, seconds=seconds, now=now) == 10
    monkeypatch.setattr(timelines, "LEAST_COMMITS", 1)
    assert commits_to_keep(timeline, seconds=seconds, now=now) == kept


def test_the_days_of_a_savepoint_count_from_when_it_was_made() -> None:
    """Not from its commit, which may be the last one of a table since long ago."""
    commit, made = "20260101000000000", "20260120000000000"
    names = [f"{commit}_{commit}.deltacommit", f"{commit}_{made}.savepoint"]
    timeline = Timeline.of(names)
    for day, ended in ((21, []), (26, []), (28, [commit])):
        now = datetime(2026, 1, day, tzinfo=UTC)
        assert ended_savepoints(timeline, now=now) == ended
