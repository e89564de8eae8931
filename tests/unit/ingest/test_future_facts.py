"""Commits of the future in what a table's health says."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from ingest.lake.hudi.layout import layout_of
from ingest.lake.hudi.timeline import Timeline
from ingest.maintenance.facts import facts_from, read_facts
from ingest.maintenance.repair_descriptions import externally_modified
from ingest.maintenance.score import score
from ingest.pipelines.policies.maintenance import MaintenancePolicy

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
FIRST, NEWEST, SOON, FAR = (
    "20260101110000000",
    "20260101115900000",
    "20260101120030000",
    "20300101000000000",
)


def test_commits_of_a_clock_that_was_ahead_are_told_with_their_repair() -> None:
    timeline = Timeline.of(
        [
            f"{FIRST}_{FIRST}.commit",
            # a host may be some seconds ahead of the one that looks
            f"{NEWEST}_{SOON}.deltacommit",
            f"{FAR}_{FAR}.deltacommit",
            f"{FAR}.clean.inflight",
        ]
    )
    facts = facts_from(
        read_facts(timeline, layout_of([], timeline, {}), now=NOW).to_json()
    )
    assert facts.future == (FAR,)
    (issue,) = [
        x for x in score(facts, MaintenancePolicy()).issues if x.code == "future_commit"
    ]
    assert (issue.points, issue.repair) == (50, "rollback")
    assert FAR in issue.reason
    told = " ".join(externally_modified(facts))
    assert "1 commit dated in the future" in told
    assert not list(externally_modified(replace(facts, future=())))
