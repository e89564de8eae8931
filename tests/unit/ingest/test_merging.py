"""What waiting logs cost, what health and plan make of it; no files."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ingest.lake.hudi.budget import choose
from ingest.lake.hudi.layout import FileGroup
from ingest.maintenance.facts import MB, LakeFacts, facts_from
from ingest.maintenance.merging import MergeCost, describe, weigh
from ingest.maintenance.plan import plan_maintenance
from ingest.maintenance.score import score
from ingest.pipelines.policies.maintenance import MaintenancePolicy

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
BIG = FileGroup("", "big", "b", "1", 100 * MB, 400, 3 * MB, "2")
CLEAN = FileGroup("", "clean", "b", "1", 100 * MB)
# many commits and log files, all of which waited for long
FACTS = LakeFacts(
    at="2026-01-01T12:00:00Z", groups=2, base_files=2, base_bytes=200 * MB,
    log_files=400, log_bytes=3 * MB, most_logs=400, delta_commits=400,
)  # fmt: skip


def cost(credit: int, *groups: FileGroup, measured: float | None = 3.0) -> MergeCost:
    choice = choose(groups, credit=credit)
    return weigh(groups, choice, credit=credit, allowed=10.0, measured=measured)


def test_the_cost_is_told_with_what_removes_it() -> None:
    waits = cost(30 * MB, BIG, CLEAN)
    assert (waits.waiting_groups, waits.due_groups) == (1, 0)
    assert 1.5 < waits.ratio < 1.7
    assert (waits.rewrite_bytes, waits.needs) == (103 * MB, 35.3)
    lines = list(describe(waits))
    assert "1.6 times as long" in lines[0]
    assert "would write 103 MB" in lines[0]
    assert "30 MB may be written now" in lines[1]
    due = cost(103 * MB, BIG, CLEAN)
    assert (due.due_groups, due.due_bytes, due.needs) == (1, 103 * MB, None)
    assert list(describe(cost(0, CLEAN))) == []


@pytest.mark.parametrize(
    ("merge", "codes"),
    [
        # waiting for the budget, and readers hardly notice: no issue
        (cost(0, BIG, CLEAN), []),
        # affordable and not done
        (cost(200 * MB, BIG, CLEAN), ["many_logs"]),
        (
            cost(200 * MB, replace(BIG, log_files=900)),
            ["many_logs", "compaction_late"],
        ),
        (cost(0, replace(BIG, log_files=100)), []),
        (cost(0, replace(BIG, log_files=900)), ["readers_goal"]),
        (cost(0, BIG, CLEAN, measured=12.0), ["write_amplification"]),
        (cost(0, BIG, CLEAN, measured=10.2), []),
        (cost(0, BIG, CLEAN, measured=None), []),
    ],
)
def test_waiting_logs_within_the_budget_are_no_issue(
    merge: MergeCost, codes: list[str]
) -> None:
    found = score(replace(FACTS, merge=merge), MaintenancePolicy())
    assert sorted(issue.code for issue in found.issues) == sorted(codes)


def test_a_table_that_cannot_keep_both_goals_says_what_it_would_take() -> None:
    merge = cost(0, replace(BIG, log_files=900))
    (issue,) = score(replace(FACTS, merge=merge), MaintenancePolicy()).issues
    assert "2.7 times as long" in issue.reason
    assert "35.3 bytes per byte changed" in issue.reason
    assert "max_write_amplification is 10" in issue.reason


@pytest.mark.parametrize(
    ("merge", "steps"),
    [
        (cost(0, BIG, CLEAN), []),
        (cost(200 * MB, BIG, CLEAN), ["schedule"]),
        (cost(200 * MB, CLEAN), []),
        (None, ["schedule"]),
    ],
)
def test_nothing_is_planned_that_the_budget_does_not_allow(
    merge: MergeCost | None, steps: list[str]
) -> None:
    facts = replace(FACTS, merge=merge)
    assert [s.name for s in plan_maintenance(facts, MaintenancePolicy(), NOW)] == steps


def test_facts_keep_it() -> None:
    facts = replace(FACTS, merge=cost(0, BIG))
    assert facts_from(facts.to_json()) == facts
    assert facts_from(FACTS.to_json()).merge is None
