"""What is unfinished on a timeline: whether somebody works on it, and the way out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pytest

from ingest.lake.hudi.layout import layout_of
from ingest.lake.hudi.timeline import Timeline
from ingest.maintenance.facts import (
    LakeFacts,
    Pending,
    PlanFacts,
    facts_from,
    read_facts,
    restoring,
)
from ingest.maintenance.remedies import Way, ways_out
from ingest.maintenance.repair_descriptions import cleaned, deduplicated, kept
from ingest.maintenance.score import score
from ingest.pipelines.policies.maintenance import MaintenancePolicy

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
AT, KEPT = "20260101110000000", "20260101100000000"
CLEANED = partial(cleaned, keep_seconds=120.0)


@pytest.mark.parametrize(
    ("action", "held", "is_held"),
    [
        ("deltacommit", {"write"}, True),
        ("deltacommit", {"service"}, False),
        ("compaction", {"service"}, True),
        ("compaction", {"write"}, False),
        ("clean", {"write"}, False),
        # a sync undoes what it finds under the write lease, a compaction under its own
        ("rollback", {"write"}, True),
        ("rollback", {"service"}, True),
        ("rollback", set(), False),
    ],
)
def test_whose_lease_counts(action: str, held: set[str], is_held: bool) -> None:
    timeline = Timeline.of([f"{AT}.{action}.inflight"])
    layout = layout_of([], timeline, {})
    facts = read_facts(timeline, layout, now=NOW, held=frozenset(held))
    assert facts.pending[0].is_held == is_held
    assert bool(score(facts, MaintenancePolicy()).issues) != is_held


@pytest.mark.parametrize(
    ("name", "back_to", "ways"),
    [
        ("deltacommit.requested", "", [Way("rollback", AT)]),
        ("commit.inflight", "", [Way("rollback", AT)]),
        ("replacecommit.inflight", KEPT, [Way("rollback", AT)]),
        (
            "compaction.requested",
            "",
            [Way("compact", AT), Way("unschedule-compaction", AT)],
        ),
        (
            "compaction.inflight",
            "",
            [
                Way("rollback", AT),
                Way("compact", AT),
                Way("unschedule-compaction", AT),
            ],
        ),
        ("clean.requested", "", [Way("clean")]),
        ("clean.inflight", KEPT, [Way("clean")]),
        ("rollback.inflight", "", [Way("rollback")]),
        # of a restore: it goes on from where it was cut off
        ("rollback.inflight", KEPT, [Way("restore", KEPT)]),
        ("restore.inflight", KEPT, [Way("restore", KEPT)]),
        ("restore.inflight", "", []),
        ("indexing.requested", "", []),
    ],
)
def test_the_way_out_is_by_what_it_is(name: str, back_to: str, ways: list[Way]) -> None:
    timeline = Timeline.of([f"{AT}.{name}"])
    layout = layout_of([], timeline, {})
    facts = restoring(
        read_facts(timeline, layout, now=NOW, plans={AT: PlanFacts(1, 5)}), back_to
    )
    assert facts_from(facts.to_json()) == facts
    assert list(ways_out(facts.pending[0])) == ways
    (issue,) = score(facts, MaintenancePolicy()).issues
    offered = ways[0] if ways else Way("")
    assert (issue.repair, issue.instant) == (offered.repair, offered.instant)
    state = "INFLIGHT" if name.endswith("inflight") else "REQUESTED"
    assert (issue.action, issue.state) == (name.partition(".")[0], state)


@pytest.mark.parametrize("say", [CLEANED, kept, deduplicated])
def test_what_dead_writers_left_is_told_before_it_goes(
    say: Callable[[LakeFacts], Sequence[str]],
) -> None:
    left = [Pending(AT, "deltacommit", "INFLIGHT", 99, is_held=False, behind=0)]
    facts = LakeFacts(at="", pending=tuple(left))
    assert any(f"What deltacommit {AT} wrote is removed" in line for line in say(facts))
    running = LakeFacts(at="", pending=(replace(left[0], is_held=True),))
    assert not any(AT in line for line in say(running))


def test_a_cleaning_says_what_it_deletes_and_goes_on_with() -> None:
    begun = Pending(AT, "clean", "INFLIGHT", 99, is_held=False, behind=0)
    lines = CLEANED(LakeFacts(at="", pending=(begun,), strays=3))
    assert f"A cleaning that was begun is finished: {AT}" in lines
    assert "Files that no commit lists are deleted: 3" in lines
